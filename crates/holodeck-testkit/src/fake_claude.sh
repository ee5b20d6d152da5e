# A stand-in for the Claude Code CLI: speaks its protocol as recorded, and misbehaves on request. Needs nothing but a
# shell. `folder`, `version`, `fault`, `stage`, `amount` and `complaint` are set above.

last() { # No further output or input.
  exec /bin/sleep 600
}

at() { # A stage is reached.
  [ "$stage" = "$1" ] || return 0
  case $fault in
  crash)
    printf '%s\n' "fatal: crashed at $1" >&2
    exit 70
    ;;
  kill) kill -9 $$ ;;
  hang) last ;;
  esac
}

grandchild() { # Holds our pipes open.
  /bin/sleep 600 &
  printf '%s\n' "$!" >>"$folder/pids"
}

xes() { # About $1 bytes, in pieces of 64 KiB.
  piece=xxxxxxxx
  while [ ${#piece} -lt 65536 ]; do piece=$piece$piece; done
  written=0
  while [ "$written" -lt "$1" ]; do
    printf '%s' "$piece"
    written=$((written + 65536))
  done
}

say() {
  case $fault in
  noise) printf '%s\n' 'Debugger attached.' '' '[1,2]' '"text"' '{"no":"type"}' '{"type":7}' '{"type":"assistant' ;;
  unknown)
    printf '%s\n' '{"type":"telepathy","subtype":"success","is_error":true}' \
      '{"type":"system","subtype":"telepathy"}' \
      '{"type":"stream_event","event":{"type":"telepathy"},"parent_tool_use_id":null}' \
      '{"type":"control_response","response":{"subtype":"success","request_id":"unknown"}}' \
      '{"type":"control_cancel_request","request_id":"unknown"}'
    ;;
  esac
  printf '%s\n' "$1"
}

session=6f9619ff-8b86-4d01-b42d-00cf4fc964ff
model=claude-sonnet-4-5
usage='"input_tokens":10,"cache_creation_input_tokens":0,"cache_read_input_tokens":0'

answer() { # The response to a request of the host.
  say "{\"type\":\"control_response\",\"response\":{\"subtype\":\"success\",\"request_id\":\"$1\"$2}}"
}

init() {
  common="\"parent_tool_use_id\":null,\"session_id\":\"$session\""
  say "{\"type\":\"system\",\"subtype\":\"init\",\"cwd\":\"/workspace\",\"session_id\":\"$session\",\"tools\":[],\
\"mcp_servers\":[],\"model\":\"$model\",\"permissionMode\":\"default\",\"apiKeySource\":\"ANTHROPIC_API_KEY\",\
\"claude_code_version\":\"$version\",\"capabilities\":[\"interrupt_receipt_v1\",\"interrupt_cancel_queued_v1\"]}"
}

event() {
  [ "$streams" = no ] || say "{\"type\":\"stream_event\",\"event\":$1,$common}"
}

assistant() { # $1 the text, $2 more of the frame
  say "{\"type\":\"assistant\",\"message\":{\"id\":\"msg_$turns\",\"type\":\"message\",\"role\":\"assistant\",\
\"model\":\"$model\",\"content\":[{\"type\":\"text\",\"text\":\"$1\"}],\"stop_reason\":null,\"stop_sequence\":null,\
\"usage\":{$usage,\"output_tokens\":1}},$common$2}"
}

result() { # $1 the text
  result="{\"duration_api_ms\":1,\"stop_reason\":\"end_turn\",\"session_id\":\"$session\",\"total_cost_usd\":0.000105,\
\"usage\":{$usage,\"output_tokens\":5},\"permission_denials\":[],\"terminal_reason\":\"completed\",\
\"is_error\":false,\"num_turns\":1,\"subtype\":\"success\",\"api_error_status\":null,\"result\":\"$1\",\
\"type\":\"result\",\"duration_ms\":1,\"queued_turn_count\":0}"
  say "$result"
  [ "$fault" != late-result ] || stale=$result
}

cleared() { # The result of /clear: nothing was asked of a model.
  say "{\"is_error\":false,\"duration_api_ms\":0,\"num_turns\":0,\"stop_reason\":null,\"session_id\":\"$session\",\
\"total_cost_usd\":0,\"usage\":{\"input_tokens\":0,\"output_tokens\":0},\"permission_denials\":[],\
\"subtype\":\"success\",\"result\":\"\",\"type\":\"result\",\"duration_ms\":1,\"queued_turn_count\":0}"
}

interrupted() {
  assistant 'Answer ' ',"aborted":true'
  say "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":[{\"type\":\"text\",\
\"text\":\"[Request interrupted by user]\"}]},$common}"
  event '{"type":"content_block_stop","index":0}'
  event '{"type":"message_delta","delta":{"stop_reason":null,"stop_sequence":null},"usage":{"output_tokens":1}}'
  event '{"type":"message_stop"}'
  say "{\"duration_api_ms\":0,\"stop_reason\":null,\"session_id\":\"$session\",\"total_cost_usd\":0,\
\"usage\":{\"input_tokens\":0,\"output_tokens\":0},\"permission_denials\":[],\
\"terminal_reason\":\"aborted_streaming\",\"is_error\":true,\"num_turns\":2,\"subtype\":\"error_during_execution\",\
\"errors\":[\"[ede_diagnostic]\"],\"type\":\"result\",\"duration_ms\":1,\"queued_turn_count\":0}"
}

request_id() {
  id=${line#*'"request_id":"'}
  id=${id%%'"'*}
}

listen() { # The next line of the host.
  IFS= read -r line || return 1
  printf '%s\n' "$line" >>"$folder/received"
}

late() { # The result of the turn before comes once more.
  [ -z "$stale" ] || say "$stale"
  stale=
}

turn() {
  late
  printf '%s\n' "$$" >>"$folder/asked"
  turns=$((turns + 1))
  at message
  init
  at init
  event "{\"type\":\"message_start\",\"message\":{\"id\":\"msg_$turns\",\"type\":\"message\",\"role\":\"assistant\",\
\"model\":\"$model\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{$usage,\"output_tokens\":1}}}"
  event '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}'
  event '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Answer "}}'
  at answer
  case $fault in
  exit)
    printf '%s' "$complaint" >&2
    exit "$amount"
    ;;
  half-line)
    printf '%s' '{"type":"result","subtype":"succ'
    exit 0
    ;;
  long-line)
    printf '%s' '{"type":"assistant","message":{"content":[{"type":"text","text":"'
    xes "$amount"
    printf '%s\n' '"}]}}'
    ;;
  ignore-term)
    trap '' TERM
    grandchild
    while :; do /bin/sleep 600; done
    ;;
  interrupt-itself)
    interrupted
    return
    ;;
  wait-for-interrupt)
    while listen; do
      case $line in
      *'"subtype":"interrupt"'*)
        request_id
        answer "$id" ',"response":{"still_queued":[]}'
        interrupted
        return
        ;;
      esac
    done
    exit 0
    ;;
  tool-calls)
    call=0
    while [ "$call" -lt "$amount" ]; do
      say "{\"type\":\"assistant\",\"message\":{\"id\":\"msg_$turns\",\"type\":\"message\",\"role\":\"assistant\",\
\"model\":\"$model\",\"content\":[{\"type\":\"tool_use\",\"id\":\"toolu_$call\",\"name\":\"mcp__holodeck_tools__work\",\
\"input\":{\"n\":$call}}],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{$usage,\"output_tokens\":1}},$common}"
      say "{\"type\":\"control_request\",\"request_id\":\"fake-$call\",\"request\":{\"subtype\":\"mcp_message\",\
\"server_name\":\"holodeck_tools\",\"message\":{\"jsonrpc\":\"2.0\",\"id\":$call,\"method\":\"tools/call\",\
\"params\":{\"name\":\"work\",\"arguments\":{\"n\":$call}}}}}"
      call=$((call + 1))
    done
    while [ "$call" -gt 0 ]; do
      listen || exit 71
      call=$((call - 1))
    done
    ;;
  withdraw)
    input="{\"file_path\":\"$PWD/made.txt\",\"content\":\"made\"}"
    say "{\"type\":\"assistant\",\"message\":{\"id\":\"msg_$turns\",\"type\":\"message\",\"role\":\"assistant\",\
\"model\":\"$model\",\"content\":[{\"type\":\"tool_use\",\"id\":\"toolu_w\",\"name\":\"Write\",\"input\":$input}],\
\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{$usage,\"output_tokens\":1}},$common}"
    event '{"type":"content_block_stop","index":0}'
    event '{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":5}}'
    event '{"type":"message_stop"}'
    say "{\"type\":\"control_request\",\"request_id\":\"fake-w\",\"request\":{\"subtype\":\"can_use_tool\",\
\"tool_name\":\"Write\",\"input\":$input,\"tool_use_id\":\"toolu_w\",\"permission_suggestions\":[]}}"
    while [ ! -e "$folder/withdraw" ]; do /bin/sleep 0.02; done
    say '{"type":"control_cancel_request","request_id":"fake-w"}'
    say "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\
\"tool_use_id\":\"toolu_w\",\"is_error\":true,\"content\":\"The call was withdrawn\"}]},$common}"
    turns=$((turns + 1))
    event "{\"type\":\"message_start\",\"message\":{\"id\":\"msg_$turns\",\"type\":\"message\",\"role\":\"assistant\",\
\"model\":\"$model\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{$usage,\"output_tokens\":1}}}"
    event '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}'
    event '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Answer "}}'
    ;;
  unknown-request)
    say '{"type":"control_request","request_id":"fake-1","request":{"subtype":"telepathy","question":"?"}}'
    listen || exit 71
    case $line in
    *'"control_response"'*'"error"'*'"fake-1"'*) ;;
    *)
      printf '%s\n' 'an unknown request was not answered with an error' >&2
      exit 71
      ;;
    esac
    ;;
  esac
  event "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"$turns.\"}}"
  assistant "Answer $turns."
  event '{"type":"content_block_stop","index":0}'
  event '{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":5}}'
  event '{"type":"message_stop"}'
  at result
  result "Answer $turns."
  [ "$fault" != two-results ] || result "Answer $turns again."
}

streams=no
for argument; do
  case $argument in
  --version | -v)
    at version
    printf '%s (Claude Code)\n' "$version"
    exit 0
    ;;
  --include-partial-messages) streams=yes ;;
  esac
done
printf '%s\n' "$$" >>"$folder/pids"
printf '%s\n' "$$" >>"$folder/starts"
for argument; do printf '%s\n' "$argument" >>"$folder/arguments"; done
turns=0
clears=0
stale=

[ "$fault" != grandchild ] || grandchild
if [ "$fault" = stderr-flood ]; then
  xes "$amount" >&2
  printf '\n' >&2
fi
at start
while listen; do
  request_id
  case $line in
  '{"type":"control_request"'*'"subtype":"initialize"'*)
    at initialize
    answer "$id" ",\"response\":{\"commands\":[],\"agents\":[],\"output_style\":\"default\",\"models\":[],\
\"account\":{\"tokenSource\":\"none\",\"apiKeySource\":\"ANTHROPIC_API_KEY\",\"apiProvider\":\"firstParty\"},\
\"pid\":$$,\"claude_code_version\":\"$version\",\"current_permission_mode\":\"default\",\"session_state\":\"idle\",\
\"capabilities\":[]}"
    at initialized
    ;;
  '{"type":"control_request"'*'"subtype":"interrupt"'*) answer "$id" ',"response":{"still_queued":[]}' ;;
  '{"type":"control_request"'*) answer "$id" ',"response":{}' ;;
  '{"type":"user"'*'"content":"/clear"'*)
    if [ "$fault" = cannot-clear ]; then
      sentence="/clear isn't available in this environment."
      init
      model='<synthetic>'
      assistant "$sentence"
      model=claude-sonnet-4-5
      result "$sentence"
      continue
    fi
    clears=$((clears + 1))
    session=4f0e3a52-5e7c-4b1b-9b43-9e1c1d9f7e0$clears
    say "{\"type\":\"conversation_reset\",\"new_conversation_id\":\"$session\",\"trigger\":\"clear\"}"
    init
    cleared
    late
    ;;
  '{"type":"user"'*) turn ;;
  esac
done
[ "$fault" != ignore-eof ] || last
if [ "$fault" = flush ]; then
  /bin/sleep 0.3
  printf '%s\n' "$$" >>"$folder/flushed"
fi
exit 0
