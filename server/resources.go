package server

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/filters"
	"mainstay.dev/mainstay/request"
	"mainstay.dev/mainstay/telemetry"
)

// api is what answers for API resources and describes them.
type api struct {
	// Handler answers everything that is not one of the server's own paths.
	Handler http.Handler
	// OnError answers with an error in the media type that is accepted.
	OnError filters.ErrorWriter
	// Known tells what Handler has.
	Known func(*request.Info) bool
	// Ready are further checks of /readyz.
	Ready []telemetry.Check
}

// Route is one line of the route table.
type Route struct{ Verb, Path, Kind string }

// Routes lists what the server answers for, without starting it.
func (s *Server) Routes() []Route {
	var routes []Route
	for _, path := range ownPaths(s.config) {
		routes = append(routes, Route{Verb: "get", Path: path})
	}
	return routes
}

// installAPI puts resources on top of s.backend.
func (s *Server) installAPI() (api, error) {
	return api{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if info := request.InfoFrom(r.Context()); info != nil && info.IsResource {
				writeStatus(w, r, &apierrors.StatusError{ErrStatus: metav1.Status{
					Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
					Message: "the server could not find the requested resource", Details: &metav1.StatusDetails{},
				}})
				return
			}
			http.NotFound(w, r)
		}),
		OnError: writeStatus,
		Known:   func(*request.Info) bool { return false },
	}, nil
}

// writeStatus answers with an error as JSON.
func writeStatus(w http.ResponseWriter, _ *http.Request, err error) {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		known = apierrors.NewInternalError(err)
	}
	status := known.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	body, err := json.Marshal(status)
	if err != nil {
		http.Error(w, status.Message, int(status.Code))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(int(status.Code))
	_, _ = w.Write(body) // a client that went away cannot be told
}
