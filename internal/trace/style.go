package trace

// style is for light and dark: only the colours differ.
const style = `
:root{--bg:#fff;--fg:#1d2329;--dim:#66707a;--line:#c9d0d6;--head:#eef2f5;--note:#f6f8fa;--blue:#1f6fd0;--green:#1a8a4c;--amber:#b36b00;--red:#c62f2f;--redbg:#fdeeee;--greenbg:#e9f6ee;--bluebg:#e8f1fc}
@media(prefers-color-scheme:dark){:root{--bg:#14181c;--fg:#e4e8eb;--dim:#93a0ab;--line:#3a444d;--head:#222a31;--note:#1d242a;--blue:#6ab0ff;--green:#4cc784;--amber:#e8a13c;--red:#ff7a72;--redbg:#3a1f20;--greenbg:#173026;--bluebg:#18293d}}
html{background:var(--bg);color:var(--fg);font:14px/1.5 system-ui,sans-serif}
body{margin:20px 24px}
h1{font-size:20px;margin:0 0 8px}h2{font-size:16px}
header,footer{max-width:1100px}
table{border-collapse:collapse;margin:0 0 8px}th,td{text-align:left;padding:2px 18px 2px 0;vertical-align:top}th{color:var(--dim);font-weight:500}
p{margin:6px 0;color:var(--dim)}
.key{display:inline-block;width:12px;height:12px;border-radius:2px;vertical-align:-1px;margin-left:14px}.key:first-child{margin-left:0}
.key.authority{background:var(--blue)}.key.owned{background:var(--green)}.key.watched{background:var(--amber)}.key.bad{background:var(--red)}
.sticky{position:sticky;top:0;background:var(--bg);width:max-content;padding-top:4px;z-index:1}
svg{display:block;font:12px system-ui,sans-serif}
svg text{fill:var(--fg);paint-order:stroke;stroke:var(--bg);stroke-width:4px;stroke-linejoin:round}
.head{fill:var(--head);stroke:var(--line)}
.heads text,.notetext{stroke:none!important}
.lane{font-weight:600;font-size:14px}
text.sub,text.time,text.line,text.idle{fill:var(--dim)}
text.sub{font-size:11px}
text.time,text.line,text.idle{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:11px}
.life{stroke:var(--line)}
line.idle{stroke:var(--line);stroke-dasharray:2 5}
.bar.authority{fill:var(--blue);opacity:.55}.bar.owned{fill:var(--green)}.bar.watched{fill:var(--amber)}
.bar.open{fill-opacity:.6;stroke:var(--blue);stroke-dasharray:3 3}
.tag{font-size:11px;font-weight:600}
text.tag.authority{fill:var(--blue)}text.tag.owned{fill:var(--green)}text.tag.watched{fill:var(--amber)}
.arrow{stroke:var(--fg);stroke-width:1.3}
.tip{fill:var(--fg)}.badtip{fill:var(--red)}
.bad .arrow{stroke:var(--red);stroke-dasharray:6 3}.bad text.label{fill:var(--red)}
.note{fill:var(--note);stroke:var(--line)}
.note.run{stroke-dasharray:4 3}
.note.authority{fill:var(--bluebg);stroke:var(--blue)}
.note.trace-ends{stroke:var(--amber);stroke-dasharray:4 3}
.bad .note,.note.fenced,.note.verdict{fill:var(--redbg);stroke:var(--red);stroke-width:1.5}
.row:hover .arrow,.row:hover .note{stroke-width:2.5}
ol{list-style:none;padding:0}li{padding:1px 0}time,li i{font:12px ui-monospace,Menlo,Consolas,monospace;color:var(--dim);margin-right:6px}
li b{font-weight:600;margin-right:2px}
`
