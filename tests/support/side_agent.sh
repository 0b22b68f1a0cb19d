# An agent for several tasks at once: does what its phase asks, and in implement commits a file named after its task.
# $1: a folder of its own, with perhaps answers to comments in `answers`. It keeps each prompt and folder there, and holds in implement while hold-NAME is there.
set -eu
mine=$1 task=$MARATHON_TASK_DIR name=${MARATHON_TASK_DIR##*/}
cat > "$mine/prompt-$name-$MARATHON_PHASE"
pwd > "$mine/folder-$name"
leave() {
    printf '{"state": "%s", "phase": "%s", "iteration": %s}' "$1" "$2" "$MARATHON_ITERATION" > "$task/STATE.json"
}
case $MARATHON_PHASE in
research) echo found > "$task/research.md"; leave paused research ;;
plan) echo "- [ ] 1. step" > "$task/plan.md"; leave paused plan ;;
implement)
    touch "$mine/working-$name"
    while test -e "$mine/hold-$name"; do sleep 0.02; done
    echo "$name" > "$name.txt"
    test -e "$mine/uncommitted" || { git add -A; git -c user.name=a -c user.email=b commit -q --allow-empty -m "$name"; }
    echo "all of it" > "$task/result.md"
    test ! -e "$mine/answers" || cat "$mine/answers" >> "$task/result.md"
    leave completed 'done'
    ;;
esac
