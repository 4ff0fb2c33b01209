# Sourced by scripts that run long commands.

# with_progress REPORT COMMAND…  runs a command with its output in the file $log, and returns its exit code. Every 15 seconds it calls
# REPORT with the number of seconds since the start.
with_progress() {
  local report=$1 code=0 reporter
  shift
  (
    exec 9>&- 8<> <(:) # nothing ever comes from 8: reading it sleeps without starting a process
    SECONDS=0 next=15
    while kill -0 $$ 2>/dev/null; do
      read -r -t 1 -u 8 || true
      [ $SECONDS -lt $next ] || { "$report" $SECONDS; next=$((next + 15)); }
    done
  ) &
  reporter=$!
  "$@" </dev/null >"$log" 2>&1 9>&- || code=$?
  kill $reporter 2>/dev/null && wait $reporter 2>/dev/null || true
  return $code
}
