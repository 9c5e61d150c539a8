package controlplane

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"mainstay.dev/mainstay/internal/apis/history"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/storage/archive"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// momentPrefix precedes the moment in the path of a request for an earlier state. The moment is the
// point in time whose state is requested:
//
//	/at/2026-11-27T14:02:00Z/api/v1/pods     at a time
//	/at/-15m/api/v1/pods                     before now
//	/at/rv/12345/api/v1/pods                 at a resourceVersion
const momentPrefix = "/at/"

// revisionSegment is the segment before a resourceVersion.
const revisionSegment = "rv"

type momentKey struct{}

// momentFrom returns the point in time that a request reads at, as written in its path; "" means
// the present.
func momentFrom(ctx context.Context) string {
	moment, _ := ctx.Value(momentKey{}).(string)
	return moment
}

// cutMoment moves the moment from the path of a request to its context. It returns a request
// without a moment unchanged.
func cutMoment(r *http.Request) *http.Request {
	moment, rest, ok := splitMoment(r.URL.Path)
	if !ok {
		return r
	}
	cut := r.WithContext(context.WithValue(request.WithPathPrefix(r.Context(), momentPrefix+moment), momentKey{}, moment))
	location := *r.URL
	location.Path = rest
	if _, raw, ok := splitMoment(r.URL.RawPath); ok {
		location.RawPath = raw
	} else {
		location.RawPath = ""
	}
	cut.URL = &location
	return cut
}

// splitMoment returns the moment in a path, and the path after it. ok is false if the path contains
// no moment.
func splitMoment(path string) (moment, rest string, ok bool) {
	after, ok := strings.CutPrefix(path, momentPrefix)
	if !ok {
		return "", "", false
	}
	moment, rest, _ = strings.Cut(after, "/")
	if moment == revisionSegment {
		var revision string
		revision, rest, _ = strings.Cut(rest, "/")
		moment += "/" + revision
	}
	return moment, "/" + rest, true
}

// errMoment is returned for a moment that cannot be parsed.
var errMoment = errors.New("after /at/, the path must contain a time such as 2026-11-27T14:02:00Z, an age such as -15m or -2d, or rv/ and a resourceVersion")

// revisionOf returns the revision of a moment. The error is errMoment, or an error of the archive.
func revisionOf(ctx context.Context, from *archive.Archive, moment string, now time.Time) (kv.Revision, error) {
	revision, at, err := history.ParseMoment(moment, now)
	switch {
	case err != nil:
		return 0, errMoment
	case revision > 0:
		return revision, nil
	}
	return from.RevisionAt(ctx, at)
}
