// The user who has logged in, until the tab is closed, and the statements that the user runs.
//
// The key goes with each question in a header of its own: no page of others can send it.

import { TOKEN_KEY } from './stream';

export type Role = 'LOOK' | 'OPERATE' | 'ADMINISTER';

type LoggedIn = { session: string; user: string; role: Role };

export type Fate = {
  running: boolean;
  notices: string[];
  error: string | null;
  hint: string | null;
};

const KEY = 'plinth-session';
// The server answers after ten seconds, whatever the statement does.
const ANSWER_MS = 30_000;

function kept(): LoggedIn | null {
  try {
    return JSON.parse(sessionStorage.getItem(KEY) ?? 'null') as LoggedIn | null;
  } catch {
    return null;
  }
}

const failed = (error: string): Fate => ({ running: false, notices: [], error, hint: null });

export class Session {
  now = $state.raw<LoggedIn | null>(kept());
  mayOperate = $derived(this.now?.role === 'OPERATE' || this.now?.role === 'ADMINISTER');
  mayAdminister = $derived(this.now?.role === 'ADMINISTER');

  private set(now: LoggedIn | null) {
    this.now = now;
    if (now) sessionStorage.setItem(KEY, JSON.stringify(now));
    else sessionStorage.removeItem(KEY);
  }

  private ask(path: string, question: object): Promise<Response> {
    const headers: Record<string, string> = { 'Content-Type': 'application/json' };
    const token = sessionStorage.getItem(TOKEN_KEY);
    if (token) headers.Authorization = `Bearer ${token}`;
    if (this.now) headers['Plinth-Session'] = this.now.session;
    return fetch(path, {
      method: 'POST',
      headers,
      body: JSON.stringify(question),
      cache: 'no-store',
      signal: AbortSignal.timeout(ANSWER_MS),
    });
  }

  // Why it failed; nothing if it did not.
  async logIn(user: string, password: string): Promise<string | null> {
    try {
      const answer = await this.ask('/api/login', { user, password });
      if (!answer.ok) return (await answer.text()).trim();
      this.set((await answer.json()) as LoggedIn);
      return null;
    } catch {
      return 'The instance does not answer.';
    }
  }

  async logOut() {
    const asked = this.ask('/api/logout', {});
    this.set(null);
    try {
      await asked;
    } catch {
      // The session ends by itself.
    }
  }

  async run(statement: string): Promise<Fate> {
    try {
      const answer = await this.ask('/api/statement', { statement });
      if (answer.status === 401) {
        this.set(null);
        return failed('The login is over; log in again.');
      }
      if (!answer.ok) return failed((await answer.text()).trim());
      return (await answer.json()) as Fate;
    } catch {
      return failed('The instance does not answer; the statement may have been run.');
    }
  }
}

// A name as a statement has it.
export function quoted(name: string): string {
  return /^[A-Z][A-Z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
}

// The role that a statement needs, if the page can run it.
export function roleOf(statement: string): Role | null {
  const kind = /^ALTER DISKGROUP (?:\w+|"(?:[^"]|"")*") (ONLINE|OFFLINE|REBALANCE|SCRUB)\b[^;]*;?$/.exec(statement)?.[1];
  if (!kind) return null;
  return kind === 'SCRUB' ? 'ADMINISTER' : 'OPERATE';
}
