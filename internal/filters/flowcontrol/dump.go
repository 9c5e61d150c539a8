package flowcontrol

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/filters/flowcontrol/fairqueue"
)

// DumpPrefix is the prefix of the paths of Dumps.
const DumpPrefix = "/debug/api_priority_and_fairness/"

// Dumps returns a new map of the debug handlers for levels, queues and requests, by path. The
// tables have the format of kube-apiserver, including a misspelled column. The handlers are safe
// for concurrent use.
func (c *Control) Dumps() map[string]http.Handler {
	return map[string]http.Handler{
		DumpPrefix + "dump_priority_levels": serveTable(c.dumpLevels),
		DumpPrefix + "dump_queues":          serveTable(c.dumpQueues),
		DumpPrefix + "dump_requests":        serveTable(c.dumpRequests),
	}
}

// table contains rows of cells. The first row is the header.
type table [][]string

func (t *table) add(cells ...any) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = fmt.Sprint(cell)
	}
	*t = append(*t, row)
}

func serveTable(make func(*http.Request) table) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var text strings.Builder
		columns := tabwriter.NewWriter(&text, 8, 0, 1, ' ', 0)
		for _, row := range make(r) {
			_, _ = fmt.Fprintln(columns, strings.Join(row, ",\t")) // writes to memory cannot fail
		}
		_ = columns.Flush()
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte(text.String())) // the client may have disconnected
	})
}

// eachLevel calls f with each level, sorted by name. f must not lock c.mu.
func (c *Control) eachLevel(f func(*level)) {
	c.configured()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.sortedLevels() {
		f(l)
	}
}

func (c *Control) dumpLevels(*http.Request) table {
	t := table{{
		"PriorityLevelName", "ActiveQueues", "IsIdle", "IsQuiescing", "WaitingRequests", "ExecutingRequests",
		"DispatchedRequests", "RejectedRequests", "TimedoutRequests", "CancelledRequests",
	}}
	c.eachLevel(func(l *level) {
		d := l.set.Dump(false)
		t.add(l.name, d.ActiveQueues, d.Waiting+d.Executing == 0, l.quiescing.Load(), d.Waiting, d.Executing, d.Dispatched, d.Rejected, d.TimedOut, d.Cancelled)
	})
	return t
}

func (c *Control) dumpQueues(*http.Request) table {
	t := table{{
		"PriorityLevelName", "Index", "PendingRequests", "ExecutingRequests", "SeatsInUse", "NextDispatchR", "InitialSeatsSum", "MaxSeatsSum", "TotalWorkSum",
	}}
	c.eachLevel(func(l *level) {
		for index, q := range l.set.Dump(false).Queues {
			t.add(l.name, index, q.Waiting, q.Executing, q.SeatsInUse, q.NextDispatchR, q.InitialSeats, q.Seats, q.Work)
		}
	})
	return t
}

func (c *Control) dumpRequests(r *http.Request) table {
	details := r.URL.Query().Get("includeRequestDetails") != ""
	t := table{{
		"PriorityLevelName", "FlowSchemaName", "QueueIndex", "RequestIndexInQueue", "FlowDistingsher", "ArriveTime",
		"InitialSeats", "FinalSeats", "AdditionalLatency", "StartTime",
	}}
	if details {
		t[0] = append(t[0], "UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion", "Resource", "SubResource")
	}
	c.eachLevel(func(l *level) {
		for _, d := range l.set.Dump(true).Requests {
			t = append(t, requestRow(&d, details))
		}
	})
	return t
}

func requestRow(d *fairqueue.RequestDump, details bool) []string {
	queued := d.Data.(*Request)
	at := func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
	row := []string{
		queued.flow.level.name, queued.flow.schema, strconv.Itoa(d.Queue), strconv.Itoa(d.Position), queued.distinguisher, at(d.Arrived),
		strconv.Itoa(d.Work.InitialSeats), strconv.Itoa(d.Work.FinalSeats), d.Work.AdditionalLatency.String(), at(d.Started),
	}
	if details {
		info := queued.info
		version := schema.GroupVersion{Group: info.Group, Version: info.Version}.String()
		row = append(row, queued.user.Name, info.Verb, info.Path, info.Namespace, info.Name, version, info.Resource, info.Subresource)
	}
	return row
}
