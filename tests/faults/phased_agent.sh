#!/bin/sh
# An agent that does what its phase asks, whatever came before; each file it leaves is old or new, never half.
# $1: a folder of its own. log: "began" and "ended" lines; prompt-RUN-ITERATION-PHASE: what each session was told.
set -eu
mine=$1
task=$MARATHON_TASK_DIR
name=$MARATHON_RUN-$MARATHON_ITERATION-$MARATHON_PHASE

log() {
    printf '%s %s %s\n' "$1" "$MARATHON_RUN" "$MARATHON_PHASE" >>"$mine/log"
}

put() { # FILE TEXT
    printf '%s\n' "$2" >"$mine/new-$$"
    mv "$mine/new-$$" "$task/$1"
}

leave() { # STATE PHASE
    put STATE.json "{\"state\":\"$1\",\"phase\":\"$2\",\"iteration\":$MARATHON_ITERATION,\"kept\":\"as it is\"}"
}

log began
cat >"$mine/prompt-$name"
case $MARATHON_PHASE in
research)
    put research.md "findings of run $MARATHON_RUN"
    leave paused research
    ;;
plan)
    put plan.md "plan of run $MARATHON_RUN"
    leave paused implement
    ;;
implement)
    if grep -qx "chunk of run $MARATHON_RUN" "$task/work.md" 2>/dev/null; then
        put result.md "result of run $MARATHON_RUN"
        leave completed 'done'
    else
        printf '%s\n' "chunk of run $MARATHON_RUN" >>"$task/work.md"
        leave running implement
        exit
    fi
    ;;
esac
log ended
