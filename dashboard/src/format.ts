// Figures for people.

const UNITS = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];

export function bytes(value: number): string {
  let at = 0;
  while (Math.abs(value) >= 1024 && at < UNITS.length - 1) {
    value /= 1024;
    at += 1;
  }
  return `${short(value)} ${UNITS[at]}`;
}

// Three digits.
export function short(value: number): string {
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size >= 100) return Math.round(value).toLocaleString('en');
  return value.toFixed(size >= 10 ? 1 : 2).replace(/\.?0+$/, '');
}

export function count(value: number): string {
  return Math.round(value).toLocaleString('en');
}

export function rate(value: number): string {
  return value > 0 && value < 0.05 ? '<0.1' : value < 10 ? short(Math.round(value * 10) / 10) : count(value);
}

export function micros(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return '–';
  if (value < 1000) return `${short(value)} µs`;
  if (value < 1_000_000) return `${short(value / 1000)} ms`;
  return `${short(value / 1_000_000)} s`;
}

export function percent(part: number): string {
  const value = part * 100;
  return `${value > 0 && value < 1 ? '<1' : Math.round(value)} %`;
}

export function span(seconds: number): string {
  const several = (value: number, unit: string) => `${value} ${unit}${value === 1 ? '' : 's'}`;
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 120) return several(whole, 'second');
  if (whole < 7200) return several(Math.floor(whole / 60), 'minute');
  if (whole < 172_800) return several(Math.floor(whole / 3600), 'hour');
  return several(Math.floor(whole / 86_400), 'day');
}

export function clock(millis: number): string {
  return new Date(millis).toLocaleTimeString('en-GB');
}
