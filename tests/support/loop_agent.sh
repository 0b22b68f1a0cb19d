# The agent of a measured loop: carries out step-N of its folder for the N-th iteration, or `step` where there is none.
# Which iteration it is, the loop's rows tell. So a session that was cut off is done again.
here=$1
n=$(($(cat "$MARATHON_TASK_DIR/../results.jsonl" 2> /dev/null | wc -l) + 1))
lane=${MARATHON_TASK_DIR%/*/task}
cat > "$here/prompt-${lane##*/}-$n"
echo "$n" >> "$here/sessions"
note() {
    printf '{"state": "running", "phase": "iterate", "iteration": 1, "updatedAt": "2026-02-02T14:30:00Z", "note": "%s"}' \
        "$1" > "$MARATHON_TASK_DIR/STATE.json"
}
step=$here/step-$n
test -e "$step" || step=$here/step
. "$step"
