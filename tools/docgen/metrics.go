package main

import (
	"fmt"
	"strings"

	"github.com/zoomies-fleet/zoomies/controller/metrics"
)

const metricsIntro = `# Metrics

The controller serves these at ` + "`/metrics`" + ` in Prometheus' text form, beside those of the Go runtime and of
the process. Durations are in seconds. The label ` + "`stage`" + ` is explained under
[Performance](../performance.md#from-the-queue-to-a-running-job).

| name | type | labels | what it says |
| --- | --- | --- | --- |
`

func metricsPage() string {
	var b strings.Builder
	b.WriteString(notice)
	b.WriteString(metricsIntro)
	for _, d := range metrics.Table {
		labels := make([]string, len(d.Labels))
		for i, l := range d.Labels {
			labels[i] = code(l)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", d.Name, d.Type, strings.Join(labels, ", "), cell(d.Help))
	}
	return b.String()
}
