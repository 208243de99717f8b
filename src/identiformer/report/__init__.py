"""Reports: one file each, which works offline and can be sent by mail."""

from identiformer.report.reports import (
    attribution_format,
    render_report,
    report_target,
    write_attribution,
    write_report,
    write_run_report,
)

__all__ = ["attribution_format", "render_report", "report_target", "write_attribution", "write_report", "write_run_report"]
