/** Requests as commands and programs to paste elsewhere. Keys come from the environment, never from this page. */

/** A request: a POST with JSON if it has a body, else a GET. */
export interface Call {
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

/** Return a request as a curl command; with `withKey` the shell's $TASKPLANE_KEY authorizes it. */
export function curl({ url, headers = {}, body }: Call, withKey: boolean): string {
  const typed = body === undefined ? headers : { ...headers, "Content-Type": "application/json" };
  const own = Object.entries(typed).filter(([name]) => !/^(authorization|x-api-key)$/i.test(name));
  return [
    `curl -sSN ${quoted(url)}`,
    ...(withKey ? ['-H "Authorization: Bearer $TASKPLANE_KEY"'] : []),
    ...own.map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`),
    ...(body === undefined ? [] : [`--data-raw ${quoted(JSON.stringify(body))}`]),
  ].join(" \\\n  ");
}

/** Return the call that sends a message to the agent at an address. */
export function sending(url: string, message: object, method = "SendMessage"): Call {
  const body = { jsonrpc: "2.0", id: 1, method, params: { message: { role: "ROLE_USER", ...message } } };
  return { url, headers: { "A2A-Version": "1.0" }, body };
}

/** Return a request that is answered by a stream as a Python program, which needs httpx. */
export function python({ url, headers, body }: Call, withKey: boolean): string {
  return `# pip install httpx${withKey ? "; export TASKPLANE_KEY=..." : ""}
import json, os, uuid
import httpx

request = ${fresh(body, "str(uuid.uuid4())")}
headers = ${JSON.stringify(headers)}
${withKey ? 'headers["Authorization"] = "Bearer " + os.environ["TASKPLANE_KEY"]\n' : ""}\
with httpx.stream("POST", ${JSON.stringify(url)}, json=request, headers=headers, timeout=None) as answer:
    answer.raise_for_status()
    for line in answer.iter_lines():
        if line.startswith("data:"):
            print(json.dumps(json.loads(line[5:]), indent=2, ensure_ascii=False))
`;
}

/** Return the same as a JavaScript program for Node, without packages. */
export function javascript({ url, headers, body }: Call, withKey: boolean): string {
  return `// Node 20 or newer: save it as hello.mjs, then ${withKey ? "TASKPLANE_KEY=... " : ""}node hello.mjs
const headers = ${JSON.stringify({ ...headers, "Content-Type": "application/json" })};
${withKey ? "headers.Authorization = `Bearer ${process.env.TASKPLANE_KEY}`;\n" : ""}\
const request = ${fresh(body, "crypto.randomUUID()")};
const answer = await fetch(${JSON.stringify(url)}, { method: "POST", headers, body: JSON.stringify(request) });
if (!answer.ok) throw new Error(await answer.text());
for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) process.stdout.write(piece);
`;
}

/** Return JSON as a literal of either language, with an id of its message that a program makes. */
function fresh(body: unknown, id: string): string {
  return JSON.stringify(body, null, 2).replace(/("messageId": )"[^"]*"/, `$1${id}`);
}

/** Quote for POSIX shells: nothing within is expanded. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
