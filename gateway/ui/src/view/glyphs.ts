/** The icons of Lucide that the page has, by what they stand for in it. */

export {
  ArrowDown as down, ArrowUp as send, Ban as canceled, Bot as agent, Box as artifacts, ChartNoAxesColumn as operations,
  ChartNoAxesGantt as brand, Check as check, ChevronRight as chevron, CircleQuestionMark as question, Copy as copy, Download as download,
  File as file, History as rewind, KeyRound as key, Keyboard as keyboard, Link as link, ListChecks as tasks, Menu as menu,
  Monitor as system, Moon as dark, Paperclip as attach, Pencil as pencil, Plus as plus, Reply as reply, ScrollText as events,
  Square as stop, Sun as light, Trash2 as trash, TriangleAlert as alert, Upload as upload, Wrench as tool, X as close,
} from "lucide";
