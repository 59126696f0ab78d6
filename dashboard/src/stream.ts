// The stream of states. Read by fetch, not by EventSource, which cannot send the token.
//
// It is opened again when it ends, when nothing has come for a while, and when the page is seen
// again: a page that has not been seen for some minutes takes none of the server's seats.

import type { State } from './model';

export type Link = 'opening' | 'live' | 'lost' | 'token' | 'full';

// Nothing came for this long: the connection is dead.
const SILENCE_MS = 10_000;
const AGAIN_MS = 1_000;
const AGAIN_FULL_MS = 10_000;
const UNSEEN_MS = 300_000;
// A server that sends no end of an event.
const EVENT_MAX = 64 << 20;

export const TOKEN_KEY = 'plinth-token';

export class Stream {
  private abort: AbortController | null = null;
  private timer = 0;
  private silence = 0;
  private unseen = 0;

  constructor(
    private take: (state: State) => void,
    private tell: (link: Link) => void,
  ) {
    document.addEventListener('visibilitychange', () => {
      clearTimeout(this.unseen);
      if (document.hidden) this.unseen = window.setTimeout(() => this.close(), UNSEEN_MS);
      else if (!this.abort && !this.timer) this.open();
    });
  }

  setToken(token: string) {
    sessionStorage.setItem(TOKEN_KEY, token);
    this.open();
  }

  close() {
    clearTimeout(this.timer);
    clearTimeout(this.silence);
    this.timer = 0;
    this.abort?.abort();
    this.abort = null;
  }

  open() {
    this.close();
    const abort = new AbortController();
    this.abort = abort;
    void this.read(abort).then((link) => {
      if (this.abort !== abort) return;
      this.close();
      this.tell(link);
      if (link === 'token') return;
      const wait = link === 'full' ? AGAIN_FULL_MS : AGAIN_MS;
      this.timer = window.setTimeout(() => this.open(), wait);
    });
  }

  private hear(abort: AbortController) {
    clearTimeout(this.silence);
    this.silence = window.setTimeout(() => abort.abort(), SILENCE_MS);
  }

  // Reads until the stream ends, and says how.
  private async read(abort: AbortController): Promise<Link> {
    try {
      this.hear(abort);
      const token = sessionStorage.getItem(TOKEN_KEY);
      const headers: Record<string, string> = token ? { Authorization: `Bearer ${token}` } : {};
      const answer = await fetch('/api/events', { headers, signal: abort.signal, cache: 'no-store' });
      if (answer.status === 401) return 'token';
      if (answer.status === 503) return 'full';
      if (!answer.ok || !answer.body) return 'lost';
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = '';
      for (;;) {
        const { done, value } = await reader.read();
        if (done || text.length > EVENT_MAX) return 'lost';
        this.hear(abort);
        text += value;
        const end = text.lastIndexOf('\n\n');
        if (end < 0) continue;
        // Of several that came at once the newest counts.
        const begin = text.lastIndexOf('\n\n', end - 1);
        const event = text.slice(begin < 0 ? 0 : begin + 2, end);
        text = text.slice(end + 2);
        if (event.startsWith('data: ')) {
          this.take(JSON.parse(event.slice(6)) as State);
          this.tell('live');
        }
      }
    } catch {
      return 'lost';
    }
  }
}
