/** Every word that the page shows, by the part of it. Sentences with figures are functions. */

export const strings = {
  product: "taskplane",
  chat: {},
  panel: {},
  agent: {},
  share: {},
  ops: {},
  signIn: {},
  keys: {},
  states: {
    submitted: "Queued",
    working: "Working",
    "input-required": "Waits for you",
    "auth-required": "Waits for sign-in",
    completed: "Completed",
    failed: "Failed",
    canceled: "Canceled",
    rejected: "Rejected",
    unknown: "Unknown",
  },
} as const;
