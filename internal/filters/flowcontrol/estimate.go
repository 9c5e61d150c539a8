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

// Bounds and prices of estimates; kube-apiserver's.
const (
	maxListSeats        = 100 // where lists are estimated by bytes
	maxListSeatsByCount = 10
	maxMutatingSeats    = 10

	bytesPerSeat   = 100_000
	objectsPerSeat = 100
	// cachedListBytes is the peak memory of a list from the cache, in bytes.
	cachedListBytes = 1_000_000
	// largestObject is the assumed size of objects of unknown size, in bytes.
	largestObject = 1_500_000

	watchesPerSeat = 10
	// eventDuration is how long a seat is occupied for watchesPerSeat watches of a
	// change.
	eventDuration = 5 * time.Millisecond
)

// Stats describes the objects of a resource's lists.
type Stats struct {
	Objects int64
	// AverageBytes is the size of an object as it is stored; 0: not known.
	AverageBytes int64
}

// estimate returns the expected work of a request and the number of watches that it notifies, or -1
// for requests that notify none.
func (c *Control) estimate(f *flow, r *http.Request, info *request.Info) (work fairqueue.Work, watches int) {
	if !info.IsResource {
		return fairqueue.Work{InitialSeats: 1}, -1
	}
	switch info.Verb {
	case "list", "watch":
		return fairqueue.Work{InitialSeats: c.listSeats(f, r, info)}, -1
	case "create", "update", "patch", "delete":
		watches = c.watches.woken(info)
		return mutatingWork(watches, boundSeats(f, maxMutatingSeats)), watches
	}
	return fairqueue.Work{InitialSeats: 1}, -1
}

// boundSeats returns the most seats that a request of a flow may take.
func boundSeats(f *flow, limit int) int {
	if f.maxSeats == 0 || f.maxSeats > limit {
		return limit
	}
	return f.maxSeats
}

// mutatingWork returns the work of a write. Its watches are notified after the response. At most
// `most` seats are reserved for them; more watches take more time instead.
func mutatingWork(watches, most int) fairqueue.Work {
	work := fairqueue.Work{InitialSeats: 1}
	if watches < watchesPerSeat {
		return work
	}
	seats := int(math.Ceil(float64(watches) / watchesPerSeat))
	work.FinalSeats = min(seats, most)
	work.AdditionalLatency = time.Duration(float64(eventDuration) * float64(seats) / float64(work.FinalSeats))
	return work
}

// listing is the part of a list's options that its work depends on.
type listing struct {
	limit     int64
	selects   bool // it has selectors
	fromCache bool
	single    bool // it is of one object
}

// listSeats returns the seats of a list, or of a watch that begins with one.
func (c *Control) listSeats(f *flow, r *http.Request, info *request.Info) int {
	limit := maxListSeats
	if c.config.ByCount {
		limit = maxListSeatsByCount
	}
	most := boundSeats(f, limit)
	l, sends, err := readListing(r.URL, info)
	switch {
	case err != nil:
		return most // the request is invalid
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
	return min(max(1, seats), most)
}

// readListing reads the options of a list or watch. sends is whether there is a list
// to be sent.
func readListing(u *url.URL, info *request.Info) (l listing, sends bool, err error) {
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

// readBool reads a parameter as apimachinery does: one without a value is true.
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

// fromCache reports whether a list reads the current objects in memory, not the objects of a
// revision.
func fromCache(match metav1.ResourceVersionMatch, version, next string, limit int64) bool {
	switch match {
	case metav1.ResourceVersionMatchNotOlderThan:
	case "":
		if limit > 0 && version != "" && version != "0" {
			return false // exactly that version, as before there was a match
		}
	default:
		return false
	}
	return next == ""
}

func (l *listing) limited(stats Stats) int64 {
	if l.limit > 0 {
		return min(l.limit, stats.Objects)
	}
	return stats.Objects
}

// seatsBySize is by the bytes that are in memory at a time.
func (l *listing) seatsBySize(stats Stats) int {
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

// seatsByCount is by the objects that are looked at and sent.
func (l *listing) seatsByCount(stats Stats) int {
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
