// A chat of assistant-ui over AG-UI, as its documentation builds one: its runtime, its primitives, no style.

import { useMemo } from 'react';
import { createRoot } from 'react-dom/client';
import { HttpAgent } from '@ag-ui/client';
import {
  ActionBarPrimitive,
  AssistantRuntimeProvider,
  AuiIf,
  BranchPickerPrimitive,
  ComposerPrimitive,
  ErrorPrimitive,
  MessagePartPrimitive,
  MessagePrimitive,
  ThreadPrimitive,
  useAuiState,
} from '@assistant-ui/react';
import { useAgUiInterrupts, useAgUiRuntime, useAgUiSubmitInterruptResponses } from '@assistant-ui/react-ag-ui';

const { url, token, thread } = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));

/** A call: its arguments, the question about it while it waits for one, and its result. */
function Tool({ toolName, argsText, result, approval, respondToApproval }) {
  const isAsked = approval !== undefined && approval.approved === undefined && approval.resolution === undefined;
  return (
    <section className="tool">
      <b>{toolName}</b> <code>{argsText}</code>
      {isAsked && (
        <p>
          <button onClick={() => respondToApproval({ approved: true })}>Yes</button>
          <button onClick={() => respondToApproval({ approved: false })}>No</button>
        </p>
      )}
      {result !== undefined && <pre>{typeof result === 'string' ? result : JSON.stringify(result)}</pre>}
    </section>
  );
}

/** The questions that no call of the last message shows: they are about a call of the message before. */
function Questions() {
  const interrupts = useAgUiInterrupts();
  const submit = useAgUiSubmitInterruptResponses();
  const areShown = useAuiState(({ thread }) => thread.messages.at(-1)?.content.some((part) => part.approval !== undefined) ?? false);
  if (areShown) return null;
  const answer = (approved) => submit(interrupts.map(({ id }) => ({ interruptId: id, status: 'resolved', payload: { approved } })));
  return interrupts.map(({ id, message }) => (
    <p className="question" key={id}>
      {message}
      <button onClick={() => answer(true)}>Yes</button>
      <button onClick={() => answer(false)}>No</button>
    </p>
  ));
}

const Text = () => (
  <p className="text">
    <MessagePartPrimitive.Text smooth={false} />
  </p>
);

const Branches = () => (
  <BranchPickerPrimitive.Root className="branches" hideWhenSingleBranch>
    <BranchPickerPrimitive.Previous>Earlier</BranchPickerPrimitive.Previous>
    <span>
      <BranchPickerPrimitive.Number />/<BranchPickerPrimitive.Count />
    </span>
    <BranchPickerPrimitive.Next>Later</BranchPickerPrimitive.Next>
  </BranchPickerPrimitive.Root>
);

const UserMessage = () => (
  <MessagePrimitive.Root className="user">
    <MessagePrimitive.Parts components={{ Text }} />
    <ActionBarPrimitive.Root>
      <ActionBarPrimitive.Edit>Edit</ActionBarPrimitive.Edit>
    </ActionBarPrimitive.Root>
    <Branches />
  </MessagePrimitive.Root>
);

const EditedMessage = () => (
  <ComposerPrimitive.Root className="edited">
    <ComposerPrimitive.Input aria-label="Changed message" />
    <ComposerPrimitive.Send>Send it</ComposerPrimitive.Send>
  </ComposerPrimitive.Root>
);

const Answer = () => (
  <MessagePrimitive.Root className="answer">
    <MessagePrimitive.Parts components={{ Text, tools: { Fallback: Tool } }} />
    <MessagePrimitive.Error>
      <ErrorPrimitive.Root className="error">
        <ErrorPrimitive.Message />
      </ErrorPrimitive.Root>
    </MessagePrimitive.Error>
    <ActionBarPrimitive.Root>
      <ActionBarPrimitive.Reload>Again</ActionBarPrimitive.Reload>
    </ActionBarPrimitive.Root>
    <Branches />
  </MessagePrimitive.Root>
);

function Message({ message }) {
  if (message.composer.isEditing) return <EditedMessage />;
  return message.role === 'user' ? <UserMessage /> : <Answer />;
}

function Chat() {
  const agent = useMemo(
    () => new HttpAgent({ url: `${url}/awp`, headers: { authorization: `Bearer ${token}` }, threadId: thread }),
    [],
  );
  const runtime = useAgUiRuntime({ agent });
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <ThreadPrimitive.Root>
        <ThreadPrimitive.Viewport>
          <ThreadPrimitive.Messages>{Message}</ThreadPrimitive.Messages>
          <Questions />
        </ThreadPrimitive.Viewport>
        <ComposerPrimitive.Root>
          <ComposerPrimitive.Input aria-label="Message" />
          <AuiIf condition={({ thread }) => !thread.isRunning}>
            <ComposerPrimitive.Send>Send</ComposerPrimitive.Send>
          </AuiIf>
          <AuiIf condition={({ thread }) => thread.isRunning}>
            <ComposerPrimitive.Cancel>Stop</ComposerPrimitive.Cancel>
          </AuiIf>
        </ComposerPrimitive.Root>
      </ThreadPrimitive.Root>
    </AssistantRuntimeProvider>
  );
}

createRoot(document.getElementById('chat')).render(<Chat />);
