# A whole marathon without fuss: research, plan, three chunks, a result.
cd "$MARATHON_TASK_DIR" || exit
leave() { echo "{\"state\": \"$1\", \"phase\": \"$2\"}" >STATE.json; }
case $MARATHON_PHASE in
implement)
    echo 'one chunk' >>work.md
    if (($(wc -l <work.md) < 3)); then
        leave running implement
    else
        echo 'All of it.' >result.md
        leave completed done
    fi
    ;;
*)
    echo 'Found and thought out.' >"$MARATHON_PHASE.md"
    leave paused "$MARATHON_PHASE"
    ;;
esac
