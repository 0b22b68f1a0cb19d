# The smallest session: a line of work and STATE.json as it should be. Notes in $1 when it began and ended.
began=$EPOCHREALTIME
echo 'one chunk' >>"$MARATHON_TASK_DIR/work.md"
echo '{"state": "running", "phase": "implement"}' >"$MARATHON_TASK_DIR/STATE.json"
echo "$began $EPOCHREALTIME" >>"$1"
