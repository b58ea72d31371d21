// A dashboard of gpupool, drawn with Grafana's own components: no Grafana server, its panel plugins or its registry of
// field options. What a plugin would do with the JSON is done here, as far as gpupool/monitoring/boards.py uses it.
// Heat maps and status histories have no component on npm: they are drawn in drawn.jsx.
//
// The page is told what to show by its address: ?board=FILE&prometheus=URL&from=SECONDS&to=SECONDS&step=SECONDS. When it
// is done, window.pictured has an entry for each panel: how many series it shows, or what went wrong.
import React, { useEffect, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { createTheme, dateTime, FieldColorModeId, FieldType, getDisplayProcessor, ThemeContext, toDataFrame } from '@grafana/data';
import { BarGauge, BigValue, BigValueColorMode, BigValueGraphMode, GlobalStyles, PanelChrome, Table, TimeSeries } from '@grafana/ui';
import { HeatMap, StatusHistory } from './drawn.jsx';
import uPlotStyle from 'uplot/dist/uPlot.min.css';

void uPlotStyle;
const WIDTH = 1440, COLUMN = WIDTH / 24, LINE = 36, GAP = 8;
const theme = createTheme({ colors: { mode: 'dark' } });
const address = new URLSearchParams(location.search);
const from = Number(address.get('from')), to = Number(address.get('to')), step = Number(address.get('step'));
const moments = { from: dateTime(from * 1000), to: dateTime(to * 1000) };
const range = { ...moments, raw: moments };

async function series(target) {
  // Variables are at "All"; a rate spans four scrapes, as Grafana's does.
  const query = target.expr.replace(/\$(tenant|node)/g, '.*').replaceAll('$__rate_interval', `${4 * step}s`);
  const [kind, when] = target.instant ? ['query', { time: to }] : ['query_range', { start: from, end: to, step }];
  const answer = await fetch(`${address.get('prometheus')}/api/v1/${kind}?${new URLSearchParams({ query, ...when })}`);
  const body = await answer.json();
  if (body.status !== 'success') throw new Error(body.error);
  return body.data.result.map(({ metric, value, values }) => ({
    metric,
    name: target.legendFormat.replace(/\{\{\s*(\w+)\s*\}\}/g, (_, label) => metric[label] ?? '').trim(),
    values: value ? [number(value)] : steps(values),
  }));
}

function number([at, text]) {
  return [Math.round(at) * 1000, Number.isFinite(Number(text)) ? Number(text) : null];
}

// Every step, so that lines have gaps where Prometheus has none.
function steps(values) {
  const known = new Map(values.map(number));
  return Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, index) => (from + index * step) * 1000)
    .map((at) => [at, known.get(at) ?? null]);
}

function display(field) {
  return getDisplayProcessor({ field, theme, timeZone: 'utc' });
}

// What the JSON says of fields is put on each one.
function frames(panel, found) {
  const { custom, ...said } = panel.fieldConfig.defaults;
  return found.map(({ name, metric, values }, index) => {
    const frame = toDataFrame({
      name,
      fields: [
        { name: 'Time', type: FieldType.time, values: values.map(([at]) => at), config: {} },
        { name: 'Value', type: FieldType.number, values: values.map(([, value]) => value), labels: metric, config: {} },
      ],
    });
    const [time, value] = frame.fields;
    value.config = {
      ...said, displayName: name, color: { mode: FieldColorModeId.PaletteClassic },
      custom: { drawStyle: 'line', lineInterpolation: 'linear', axisPlacement: 'auto', ...custom },
    };
    value.state = { seriesIndex: index, displayName: name };
    time.display = display(time);
    value.display = display(value);
    return frame;
  });
}

// A row for each series, a column for each of its labels, as a query in the format "table" has it; in the order and with
// the titles of the panel's transformation.
function table(panel, found) {
  const { renameByName: titles, excludeByName: hidden } = panel.transformations[0].options;
  const labels = Object.keys(titles).filter((label) => label !== 'Value' && found.some(({ metric }) => label in metric));
  const fields = labels.map((label) => ({ name: titles[label], type: FieldType.string, values: found.map(({ metric }) => metric[label] ?? ''), config: { custom: {} } }));
  if (!hidden.Value) {
    const config = { ...panel.fieldConfig.defaults, custom: {} };
    fields.push({ name: titles.Value, type: FieldType.number, values: found.map(({ values }) => values.at(-1)[1]), config });
  }
  const frame = toDataFrame({ fields });
  for (const field of frame.fields) field.display = display(field);
  return frame;
}

function Stats({ panel, found, width, height }) {
  return frames(panel, found).map((frame) => {
    const [, field] = frame.fields;
    const [value] = field.values.slice(-1);
    return <BigValue key={frame.name} theme={theme} width={width} height={height} value={field.display(value)}
      colorMode={BigValueColorMode.None} graphMode={BigValueGraphMode.Area}
      sparkline={{ x: frame.fields[0], y: field }} />;
  });
}

function Bars({ panel, found, width, height }) {
  const every = frames(panel, found);
  const most = panel.fieldConfig.defaults.max ?? Math.max(...every.map((frame) => frame.fields[1].values.at(-1)));
  const tall = Math.min(48, height / every.length);
  const texts = every.map((frame) => frame.fields[1].display(frame.fields[1].values.at(-1)));
  const longest = (words) => words.reduce((most, word) => ((word ?? '').length > most.length ? word : most), '');
  const factors = { title: longest(every.map(({ name }) => name)), text: longest(texts.map(({ text }) => text)), suffix: longest(texts.map(({ suffix }) => suffix)), prefix: longest(texts.map(({ prefix }) => prefix)) };
  return every.map((frame) => {
    const field = { ...frame.fields[1].config, max: most };
    const value = { ...frame.fields[1].display(frame.fields[1].values.at(-1)), title: frame.name };
    return <BarGauge key={frame.name} theme={theme} width={width} height={tall - 4} value={value} field={field}
      display={frame.fields[1].display} orientation="horizontal" displayMode="basic" alignmentFactors={factors} />;
  });
}

function Lines({ panel, found, width, height }) {
  const legend = { calcs: [], ...panel.options.legend };
  return <TimeSeries theme={theme} width={width} height={height} frames={frames(panel, found)} timeRange={range}
    timeZone="utc" legend={legend} options={panel.options} />;
}

function Rows({ panel, found, width, height }) {
  return <Table width={width} height={height} data={table(panel, found)} />;
}

const KINDS = { timeseries: Lines, stat: Stats, bargauge: Bars, table: Rows, heatmap: HeatMap, 'status-history': StatusHistory };

function Panel({ panel, width, height }) {
  const [found, show] = useState(null);
  const Kind = KINDS[panel.type];
  useEffect(() => {
    Promise.all(panel.targets.map(series)).then((all) => all.flat(), (error) => error).then((answer) => {
      window.pictured = [...(window.pictured ?? []), { id: panel.id, title: panel.title, series: answer.length ?? 0, error: answer.message ?? (Kind ? null : `no picture of ${panel.type}`) }];
      show(answer);
    });
  }, []);
  if (found === null) return null;
  const empty = found.length ? null : <p style={{ color: theme.colors.warning.text }}>{found.message ?? 'No data'}</p>;
  return <PanelChrome width={width} height={height} title={panel.title} description={panel.description}>
    {(inner, tall) => empty ?? <Kind panel={panel} found={found} width={inner} height={tall} display={display} from={from} to={to} step={step} theme={theme} />}
  </PanelChrome>;
}

function Board({ board }) {
  const last = Math.max(...board.panels.map(({ gridPos: { y, h } }) => y + h));
  return <ThemeContext.Provider value={theme}>
    <GlobalStyles />
    <div style={{ position: 'relative', width: WIDTH, height: last * LINE + 64, color: theme.colors.text.primary }}>
      <h1 style={{ margin: 0, padding: '14px 16px', fontSize: 20, fontWeight: 500 }}>{board.title}</h1>
      {board.panels.map((panel) => {
        const { x, y, w, h } = panel.gridPos;
        const place = { position: 'absolute', left: x * COLUMN + GAP / 2, top: 56 + y * LINE };
        return panel.type === 'row'
          ? <h2 key={panel.id} style={{ ...place, margin: 0, padding: 6, fontSize: 16, fontWeight: 500 }}>{panel.title}</h2>
          : <div key={panel.id} style={place}><Panel panel={panel} width={w * COLUMN - GAP} height={h * LINE - GAP} /></div>;
      })}
    </div>
  </ThemeContext.Provider>;
}

fetch(address.get('board')).then((answer) => answer.json()).then((board) => createRoot(document.getElementById('root')).render(<Board board={board} />));
