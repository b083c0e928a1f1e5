// The two stores of a plane as a service calls them: stubs made from the .proto files, and who is calling.
import { createHmac } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import grpc from '@grpc/grpc-js';
import protoLoader from '@grpc/proto-loader';

const PURPOSE = 'taskplane principal 1\0';
const FILES = ['taskplane/api/tasks/v1/tasks.proto', 'taskplane/api/sessions/v1/sessions.proto'];
const PROTOS = process.env.PROTOS ?? fileURLToPath(new URL('../../../protos', import.meta.url));

/** The value of `x-taskplane-principal`: base64url JSON without padding, and its signature where there is a secret. */
export function principal({ tenant = '', owner = '', actor }, secret) {
  const payload = Buffer.from(JSON.stringify({ t: tenant, o: owner, a: actor, s: true })).toString('base64url');
  if (!secret) return payload;
  return `${payload}.${createHmac('sha256', secret).update(PURPOSE).update(payload).digest('base64url')}`;
}

export class Plane {
  constructor({ tasks, sessions, secret, actor }) {
    const definition = protoLoader.loadSync(FILES, {
      includeDirs: [PROTOS],
      keepCase: true, // or fields in the wrong case are dropped without an error
      longs: String, // a Number loses the last digits of a fence
      enums: String,
      defaults: true,
      oneofs: true,
    });
    const api = grpc.loadPackageDefinition(definition).taskplane.api;
    const insecure = grpc.credentials.createInsecure();
    this.store = new api.tasks.v1.TaskStore(tasks, insecure);
    this.queue = new api.tasks.v1.TaskQueue(tasks, insecure);
    this.sessions = new api.sessions.v1.SessionHistory(sessions, insecure);
    this.actor = actor;
    this.secret = secret;
  }

  /** The metadata of a call for the owner of a task; without one, of the worker itself. */
  metadata(owner = {}) {
    const made = new grpc.Metadata();
    made.set('x-taskplane-principal', principal({ ...owner, actor: this.actor }, this.secret));
    return made;
  }

  /** A unary call with a deadline in seconds. */
  call(stub, method, request, { owner, timeout = 10 } = {}) {
    return new Promise((resolve, reject) => {
      const options = { deadline: Date.now() + timeout * 1000 };
      stub[method](request, this.metadata(owner), options, (error, reply) => (error ? reject(error) : resolve(reply)));
    });
  }
}

const PASSING = [grpc.status.UNAVAILABLE, grpc.status.DEADLINE_EXCEEDED, grpc.status.RESOURCE_EXHAUSTED];

/** Whether a call that may be repeated is worth repeating. */
export const isPassing = (error) => PASSING.includes(error.code);
export const isNotFound = (error) => error.code === grpc.status.NOT_FOUND;
