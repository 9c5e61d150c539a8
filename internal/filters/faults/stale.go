package faults

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/request"
)

// holdRevision acquires the newest revision for StaleReads.
func (i *Injection) holdRevision(ctx context.Context) error {
	if i.set.HoldRevision == nil {
		return errors.New("this server has no StaleReads")
	}
	var err error
	i.revision, i.release, err = i.set.HoldRevision(context.WithoutCancel(ctx))
	return err
}

// allowsStale reports whether a request is a get or list that may be served at the revision of the
// fault. A resourceVersion in the request is a lower bound for the revision of the response.
func (i *Injection) allowsStale(r *http.Request, info *request.Info) bool {
	if info.Verb != "list" && info.Verb != "get" || info.Subresource != "" {
		return false
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || query.Get("continue") != "" {
		return false
	}
	if match := metav1.ResourceVersionMatch(query.Get("resourceVersionMatch")); match != "" && match != metav1.ResourceVersionMatchNotOlderThan {
		return false
	}
	version, err := strconv.ParseInt(query.Get("resourceVersion"), 10, 64)
	exact := query.Has("limit") && version > 0 && !query.Has("resourceVersionMatch") // a limit implies an exact match of the resourceVersion
	return err == nil && version <= i.revision && !exact
}

// makeStale returns a request that reads at the revision of the fault. For a get, it modifies the
// request.Info in the context of r. For a list, it returns a modified copy of r.
func (i *Injection) makeStale(r *http.Request) *http.Request {
	if info := request.InfoFrom(r.Context()); info.Verb == "get" {
		info.AsOf = i.revision
		return r
	}
	query := r.URL.Query()
	query.Set("resourceVersion", strconv.FormatInt(i.revision, 10))
	query.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchExact))
	stale, location := *r, *r.URL
	location.RawQuery = query.Encode()
	stale.URL = &location
	return &stale
}
