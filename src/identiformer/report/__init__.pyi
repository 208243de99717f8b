from .files import attribution_format as attribution_format
from .files import report_target as report_target
from .reports import render_report as render_report
from .reports import write_attribution as write_attribution
from .reports import write_comparison as write_comparison
from .reports import write_report as write_report
from .reports import write_run_report as write_run_report
