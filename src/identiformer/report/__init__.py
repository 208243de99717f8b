"""Reports: one file each, which works offline and can be mailed."""

from identiformer.report.attribution import attribution_kind, write_attribution
from identiformer.report.corpus import write_run_report
from identiformer.report.inspection import render_report, write_report
from identiformer.report.page import report_target

__all__ = ["attribution_kind", "render_report", "report_target", "write_attribution", "write_report", "write_run_report"]
