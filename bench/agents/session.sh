# A small session of any phase: a line of work, and STATE.json as it should be. Notes in $1/times when it began and ended.
# In the sessions that $2 lists it waits to be let go; in the last of these it first prints for $3 seconds, 20 lines each.
began=$EPOCHREALTIME
[ "$MARATHON_PHASE" = implement ] && leaves=running || leaves=paused
echo 'one chunk' >>"$MARATHON_TASK_DIR/$MARATHON_PHASE.md"
echo "{\"state\": \"$leaves\", \"phase\": \"$MARATHON_PHASE\"}" >"$MARATHON_TASK_DIR/STATE.json"
if [ "${2##* }" = "$MARATHON_ITERATION" ]; then
    for ((n = 0; n < 20 * $3; n++)); do
        echo "tests/core/test_decide.py::test_completed_with_every_check_passed[$n] PASSED"
        sleep 0.05
    done
fi
case " $2 " in *" $MARATHON_ITERATION "*)
    echo $$ >"$1/agent"
    : >"$1/holding-$MARATHON_ITERATION"
    until [ -e "$1/go-$MARATHON_ITERATION" ]; do sleep 0.02; done
    ;;
esac
echo "$began $EPOCHREALTIME" >>"$1/times"
