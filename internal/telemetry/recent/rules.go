package recent

import (
	"net/http"

	dto "github.com/prometheus/client_model/go"
)

// Units of series.
const (
	unitCount     = "1"
	unitPerSecond = "1/s"
	unitSeconds   = "s"
	unitBytes     = "bytes"
	unitCores     = "cores"
)

// rule specifies the series that are recorded for a metric. A gauge has one series with its value, a counter
// has one series with its rate per second, and a histogram has two series with its quantiles, whose names end
// with P50 and P99.
type rule struct {
	metric, name, unit string
	// label returns the label of the recorded series to which a series of the metric is added. ok is false
	// if the series is not recorded. If label is nil, all series are added to one recorded series, with the
	// label "".
	label func(labels []*dto.LabelPair) (label string, ok bool)
}

// rules returns all rules. Clients can create an unlimited number of priority levels, so the rules for priority
// levels are last; see MaxSeries.
func rules() []rule {
	return []rule{
		{metric: "apiserver_request_total", name: "requests", unit: unitPerSecond, label: by("verb")},
		{metric: "apiserver_request_total", name: "errors", unit: unitPerSecond, label: errorClass},
		{metric: "apiserver_request_duration_seconds", name: "latency", unit: unitSeconds, label: shortVerb},
		{metric: "apiserver_longrunning_requests", name: "watches", unit: unitCount, label: watches},
		{metric: "mainstay_kv_commit_write_seconds", name: "commit", unit: unitSeconds},
		{metric: "mainstay_kv_request_seconds", name: "etcdRequest", unit: unitSeconds, label: by("operation")},
		{metric: "apiserver_storage_size_bytes", name: "storeSize", unit: unitBytes},
		{metric: "process_resident_memory_bytes", name: "residentMemory", unit: unitBytes},
		{metric: "go_memstats_heap_inuse_bytes", name: "heapInUse", unit: unitBytes},
		{metric: "process_cpu_seconds_total", name: "cpu", unit: unitCores},
		{metric: "go_goroutines", name: "goroutines", unit: unitCount},
		{metric: "workqueue_depth", name: "workQueue", unit: unitCount},
		{metric: "apiserver_flowcontrol_current_inqueue_requests", name: "queued", unit: unitCount, label: by("priority_level")},
		{metric: "apiserver_flowcontrol_current_executing_requests", name: "executing", unit: unitCount, label: by("priority_level")},
	}
}

func labelValue(labels []*dto.LabelPair, name string) string {
	for _, pair := range labels {
		if pair.GetName() == name {
			return pair.GetValue()
		}
	}
	return ""
}

// by returns a function for rule.label that returns the value of a label.
func by(name string) func([]*dto.LabelPair) (string, bool) {
	return func(labels []*dto.LabelPair) (string, bool) { return labelValue(labels, name), true }
}

// errorClass returns the class of an unsuccessful request: 429, 4xx for other errors of clients, or 5xx.
func errorClass(labels []*dto.LabelPair) (string, bool) {
	code := labelValue(labels, "code")
	switch {
	case code == "429":
		return code, true
	case len(code) == 3 && (code[0] == '4' || code[0] == '5'):
		return code[:1] + "xx", true
	}
	return "", false
}

// shortVerb returns the verb of a request, except for requests whose duration clients determine.
func shortVerb(labels []*dto.LabelPair) (string, bool) {
	verb := labelValue(labels, "verb")
	return verb, verb != "WATCH" && verb != http.MethodConnect
}

func watches(labels []*dto.LabelPair) (string, bool) {
	return "", labelValue(labels, "verb") == "WATCH"
}
