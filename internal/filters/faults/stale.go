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

// hold retains the newest revision for StaleReads.
func (i *Injection) hold(ctx context.Context) error {
	if i.set.Hold == nil {
		return errors.New("this server has no StaleReads")
	}
	var err error
	i.at, i.release, err = i.set.Hold(context.WithoutCancel(ctx))
	return err
}

// mayLag reports whether a request is a get or a list that may be served at the revision of the
// fault. A resourceVersion guarantees that the response is not older.
func (i *Injection) mayLag(r *http.Request, info *request.Info) bool {
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
	return err == nil && version <= i.at && !exact
}

// lag returns the request for the object or the list at the revision of the fault.
func (i *Injection) lag(r *http.Request) *http.Request {
	if info := request.InfoFrom(r.Context()); info.Verb == "get" {
		info.AsOf = i.at
		return r
	}
	query := r.URL.Query()
	query.Set("resourceVersion", strconv.FormatInt(i.at, 10))
	query.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchExact))
	lagging, location := *r, *r.URL
	location.RawQuery = query.Encode()
	lagging.URL = &location
	return &lagging
}
