# As chunk.sh; but in the sessions whose numbers $3 lists it says so in folder $2 and waits there to be let go.
. "${0%/*}/chunk.sh"
case " $3 " in
*" $MARATHON_ITERATION "*)
    : >"$2/holding-$MARATHON_ITERATION"
    until [ -e "$2/go-$MARATHON_ITERATION" ]; do sleep 0.02; done
    ;;
esac
