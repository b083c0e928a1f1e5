// The messages and changes of one turn, as plain objects of the .proto files.

const INVOCATION = 'kagent_invocation_id';
const PARTIAL = 'kagent_adk_partial';

/** JSON as a google.protobuf.Struct: proto-loader drops plain objects without an error. */
export const struct = (fields) => ({ fields: Object.fromEntries(Object.entries(fields).map(([k, v]) => [k, value(v)])) });

function value(given) {
  if (given === null) return { nullValue: 'NULL_VALUE' };
  if (typeof given === 'string') return { stringValue: given };
  if (typeof given === 'number') return { numberValue: given };
  if (typeof given === 'boolean') return { boolValue: given };
  if (Array.isArray(given)) return { listValue: { values: given.map(value) } };
  return { structValue: struct(given) };
}

export const textOf = (message) => message.parts.filter((part) => part.content === 'text').map((part) => part.text).join('\n');

/** What an event of the log says: the user's message of a CREATED or MESSAGE event, or that of the agent. */
export const messageOf = ({ event }) => event.task?.history[0] ?? event.message ?? event.status_update.status.message;

export const invocationOf = (message) => message.metadata?.fields[INVOCATION]?.stringValue;

export const status = (state, message, reason) => ({
  status: { status: { state, message }, metadata: reason ? struct({ reason }) : undefined },
});

/** The messages that an agent says in one turn. */
export class Speaker {
  constructor(record, invocation, fence) {
    Object.assign(this, { record, invocation, fence, count: 0, open: null });
  }

  /** A whole message: it replaces the text that grows, if there is one. `more` is added to its metadata. */
  message(text, more = {}) {
    const message_id = this.open?.id ?? this.#id();
    this.open = null;
    return {
      message_id,
      role: 'ROLE_AGENT',
      task_id: this.record.id,
      context_id: this.record.context_id,
      parts: [{ text }],
      metadata: struct({ [INVOCATION]: this.invocation, ...more }),
    };
  }

  /** The next piece of a text that grows. */
  piece(text) {
    this.open ??= { id: this.#id(), text: '' };
    this.open.text += text;
    return status('TASK_STATE_WORKING', {
      message_id: this.open.id,
      role: 'ROLE_AGENT',
      parts: [{ text }],
      metadata: struct({ [INVOCATION]: this.invocation, [PARTIAL]: true }),
    });
  }

  // Equal for equal steps of one run, and different from those of another.
  #id() {
    return `${this.invocation}-${this.fence}-${++this.count}`;
  }
}
