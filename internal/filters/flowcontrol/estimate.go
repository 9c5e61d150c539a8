package flowcontrol

import (
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/filters/flowcontrol/fairqueue"
	"mainstay.dev/mainstay/internal/request"
)

// Parameters of the estimates, the same as in kube-apiserver.
const (
	maxListSeats        = 100 // for estimates by size
	maxListSeatsByCount = 10  // for estimates by number of objects
	maxMutatingSeats    = 10

	bytesPerSeat   = 100_000
	objectsPerSeat = 100
	// cachedListBytes is the maximum memory use of a list from the cache, in bytes.
	cachedListBytes = 1_000_000
	// largestObject is the assumed size of an object if the average is unknown, in bytes.
	largestObject = 1_500_000

	watchesPerSeat = 10
	// eventDuration is the time for which one seat is occupied to send an event to watchesPerSeat
	// watches.
	eventDuration = 5 * time.Millisecond
)

// Stats describes the objects in a list of a resource.
type Stats struct {
	Objects int64 // number of objects
	// AverageBytes is the average size of a stored object in bytes; 0 means unknown.
	AverageBytes int64
}

// estimate returns the expected work of a request, and the number of watches that it notifies, or
// -1 for requests that do not change objects.
func (c *Control) estimate(f *flow, r *http.Request, info *request.Info) (work fairqueue.Work, watches int) {
	if !info.IsResource {
		return fairqueue.Work{InitialSeats: 1}, -1
	}
	switch info.Verb {
	case "list", "watch":
		return fairqueue.Work{InitialSeats: c.listSeats(f, r, info)}, -1
	case "create", "update", "patch", "delete":
		watches = c.watches.notified(info)
		return mutatingWork(watches, boundSeats(f, maxMutatingSeats)), watches
	}
	return fairqueue.Work{InitialSeats: 1}, -1
}

// boundSeats returns the maximum number of seats of a request, which is the smaller of limit and
// the maximum of its flow, if the flow has a maximum.
func boundSeats(f *flow, limit int) int {
	if f.maxSeats == 0 || f.maxSeats > limit {
		return limit
	}
	return f.maxSeats
}

// mutatingWork returns the work of a write that notifies a number of watches after the response. At
// most maxSeats seats are reserved for the notifications. If there are more watches, the seats are
// reserved for a longer time.
func mutatingWork(watches, maxSeats int) fairqueue.Work {
	work := fairqueue.Work{InitialSeats: 1}
	if watches < watchesPerSeat {
		return work
	}
	seats := int(math.Ceil(float64(watches) / watchesPerSeat))
	work.FinalSeats = min(seats, maxSeats)
	work.AdditionalLatency = time.Duration(float64(eventDuration) * float64(seats) / float64(work.FinalSeats))
	return work
}

// listOptions contains the options of a list that determine its work.
type listOptions struct {
	limit     int64
	selects   bool // the list has selectors
	fromCache bool
	single    bool // the list selects one object by name
}

// listSeats returns the seats of a list, or of a watch that starts with a list.
func (c *Control) listSeats(f *flow, r *http.Request, info *request.Info) int {
	limit := maxListSeats
	if c.config.ByCount {
		limit = maxListSeatsByCount
	}
	maxSeats := boundSeats(f, limit)
	l, sends, err := readListOptions(r.URL, info)
	switch {
	case err != nil:
		return maxSeats // the request is invalid
	case !sends:
		return 1
	}
	stats, known := Stats{}, false
	if c.config.Stats != nil {
		stats, known = c.config.Stats(r.Context())
	}
	if !known {
		return 1 // another server responds, or the resource does not exist
	}
	seats := l.seatsBySize(stats)
	if c.config.ByCount {
		seats = l.seatsByCount(stats)
	}
	return min(max(1, seats), maxSeats)
}

// readListOptions parses the options of a list or watch. sends reports whether the response contains a list;
// the response to a watch that starts at a resource version does not.
func readListOptions(u *url.URL, info *request.Info) (l listOptions, sends bool, err error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return l, false, err
	}
	if text := query.Get("limit"); text != "" {
		if l.limit, err = strconv.ParseInt(text, 10, 64); err != nil {
			return l, false, err
		}
	}
	l.selects = query.Get("fieldSelector") != "" || query.Get("labelSelector") != ""
	l.single = info.Name != ""
	version := query.Get("resourceVersion")
	if info.Verb == "watch" {
		l.fromCache = true
		initial, err := readBool(query, "sendInitialEvents")
		return l, initial || version == "" || version == "0", err
	}
	l.fromCache = fromCache(metav1.ResourceVersionMatch(query.Get("resourceVersionMatch")), version, query.Get("continue"), l.limit)
	return l, true, nil
}

// readBool parses a boolean parameter. As in apimachinery, a parameter without a value is true.
func readBool(query url.Values, name string) (bool, error) {
	values := query[name]
	if len(values) == 0 {
		return false, nil
	}
	if values[0] == "" {
		return true, nil
	}
	return strconv.ParseBool(values[0])
}

// fromCache reports whether a list reads the current objects in the cache, not the objects of a
// revision in the storage.
func fromCache(match metav1.ResourceVersionMatch, version, next string, limit int64) bool {
	switch match {
	case metav1.ResourceVersionMatchNotOlderThan:
	case "":
		if limit > 0 && version != "" && version != "0" {
			return false // a limit implies an exact match of the resourceVersion
		}
	default:
		return false
	}
	return next == ""
}

// limited returns the maximum number of objects in the response.
func (l *listOptions) limited(stats Stats) int64 {
	if l.limit > 0 {
		return min(l.limit, stats.Objects)
	}
	return stats.Objects
}

// seatsBySize estimates the seats by the number of bytes that the list keeps in memory at a time.
func (l *listOptions) seatsBySize(stats Stats) int {
	size := stats.AverageBytes
	if size <= 0 {
		size = largestObject
	}
	objects := l.limited(stats)
	switch {
	case l.single:
		objects = 1
	case !l.fromCache && l.selects:
		objects = max(objects, stats.Objects/2)
	}
	bytes := float64(objects) * float64(size)
	if l.fromCache {
		bytes = min(bytes, cachedListBytes)
	}
	return int(math.Ceil(min(bytes/bytesPerSeat, maxListSeats)))
}

// seatsByCount estimates the seats by the number of objects that the list evaluates and sends.
func (l *listOptions) seatsByCount(stats Stats) int {
	var objects float64
	switch {
	case l.single:
		objects = 1
	case l.fromCache:
		objects = float64(stats.Objects)
	case l.selects:
		objects = float64(stats.Objects) + float64(l.limited(stats))
	default:
		objects = 2 * float64(l.limited(stats))
	}
	return int(math.Ceil(min(objects/objectsPerSeat, maxListSeatsByCount)))
}
