// Heat maps and status histories: Grafana's plugins for them are not on npm, so these are our own drawings of what they
// show. Only colours and values are theirs.
import React from 'react';

const LEFT = 190, BELOW = 22;
const COLOURS = ['#1f3b73', '#2f6db5', '#37a2b8', '#57c98a', '#c5d84a', '#f2b134', '#e0552b'];

function colour(share) {
  return COLOURS[Math.min(COLOURS.length - 1, Math.max(0, Math.floor(share * COLOURS.length)))];
}

function clock(seconds) {
  return new Date(seconds * 1000).toISOString().slice(11, 16);
}

function Hours({ from, to, width, height, theme }) {
  const hours = [0, 0.25, 0.5, 0.75, 1].map((share) => from + share * (to - from));
  return hours.map((at, index) => <text key={at} x={LEFT + (at - from) / (to - from) * (width - LEFT)} y={height - 6} fontSize="11"
    fill={theme.colors.text.secondary} textAnchor={index === 4 ? 'end' : index ? 'middle' : 'start'}>{clock(at)}</text>);
}

// A row for each series, a cell for each half hour, with its mean.
export function StatusHistory({ panel, found, width, height, from, to, theme, display }) {
  const tall = (height - BELOW) / found.length, cells = Math.round((to - from) / 1800), wide = (width - LEFT) / cells;
  const every = found.flatMap(({ values }) => values.map(([, value]) => value));
  const least = Math.min(...every), most = Math.max(...every);
  const shown = display({ name: 'Value', type: 'number', values: [], config: panel.fieldConfig.defaults });
  return <svg width={width} height={height} role="img" aria-label={panel.title}>
    {found.map(({ name, values }, row) => <g key={name}>
      <text x={LEFT - 8} y={row * tall + tall / 2 + 4} fontSize={Math.min(11, tall)} textAnchor="end" fill={theme.colors.text.primary}>{name}</text>
      {Array.from({ length: cells }, (_, cell) => {
        const within = values.filter(([at]) => Math.floor((at / 1000 - from) / 1800) === cell).map(([, value]) => value);
        if (!within.length) return null;
        const mean = within.reduce((sum, value) => sum + value, 0) / within.length;
        return <g key={cell}>
          <rect x={LEFT + cell * wide} y={row * tall} width={wide - 1} height={tall - 2} fill={colour((mean - least) / (most - least || 1))} />
          {wide > 34 && tall > 14 && <text x={LEFT + cell * wide + wide / 2} y={row * tall + tall / 2 + 4} fontSize="10" textAnchor="middle" fill="#fff">{shown(mean).text}</text>}
        </g>;
      })}
    </g>)}
    <Hours from={from} to={to} width={width} height={height} theme={theme} />
  </svg>;
}

// How many series are within each step of the value, each half hour.
export function HeatMap({ panel, found, width, height, from, to, theme, display }) {
  const every = found.flatMap(({ values }) => values.map(([, value]) => value));
  const least = Math.floor(Math.min(...every) / 5) * 5, rows = Math.max(1, Math.ceil((Math.max(...every) + 0.1 - least) / 5));
  const cells = Math.round((to - from) / 1800), wide = (width - LEFT) / cells, tall = (height - BELOW) / rows;
  const counts = new Map();
  for (const { values } of found) for (const [at, value] of values) {
    const key = `${Math.floor((at / 1000 - from) / 1800)} ${Math.floor((value - least) / 5)}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  const most = Math.max(...counts.values());
  const shown = display({ name: 'Value', type: 'number', values: [], config: panel.fieldConfig.defaults });
  return <svg width={width} height={height} role="img" aria-label={panel.title}>
    {Array.from({ length: rows }, (_, row) => {
      const value = shown(least + row * 5);
      return <text key={row} x={LEFT - 8} y={height - BELOW - row * tall - 4} fontSize="11" textAnchor="end" fill={theme.colors.text.secondary}>{value.text}{value.suffix}</text>;
    })}
    {[...counts].map(([key, count]) => {
      const [cell, row] = key.split(' ').map(Number);
      return cell < cells && <rect key={key} x={LEFT + cell * wide} y={height - BELOW - (row + 1) * tall} width={wide - 1} height={tall - 1} fill={colour(count / most)} />;
    })}
    <Hours from={from} to={to} width={width} height={height} theme={theme} />
  </svg>;
}
