package faults

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/endpoints"
	"mainstay.dev/mainstay/internal/simulation"
)

// Paths of the endpoint. By default only system:masters may request them.
const (
	// Path is that of all faults; one is below it by its id.
	Path = "/mainstay/v1/faults"
	// ClockPath is that of the time.
	ClockPath = "/mainstay/v1/clock"
)

// Limits of requests to the endpoint.
const (
	maxBody   = 64 << 10
	maxFaults = 1000
)

// resource is a fault as JSON has it: durations are strings, as 1.5s.
type resource struct {
	ID          int     `json:"id"`
	Hits        int     `json:"hits"`
	Verb        string  `json:"verb,omitempty"`
	Resource    string  `json:"resource,omitempty"`
	User        string  `json:"user,omitempty"`
	Name        string  `json:"name,omitempty"`
	Count       int     `json:"count,omitempty"`
	Probability float64 `json:"probability,omitempty"`
	Seed        uint64  `json:"seed,omitempty"`
	Delay       seconds `json:"delay,omitzero"`
	Status      int     `json:"status,omitempty"`
	RetryAfter  seconds `json:"retryAfter,omitzero"`
	DropWatch   bool    `json:"dropWatch,omitempty"`
	FreezeWatch bool    `json:"freezeWatch,omitempty"`
	StaleReads  bool    `json:"staleReads,omitempty"`
}

// seconds is a duration as a string.
type seconds time.Duration

// MarshalText implements encoding.TextMarshaler.
func (s seconds) MarshalText() ([]byte, error) { return []byte(time.Duration(s).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *seconds) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	*s = seconds(d)
	return err
}

func (r *resource) fault() Fault {
	return Fault{
		Verb: r.Verb, Resource: r.Resource, User: r.User, Name: r.Name, Count: r.Count, Probability: r.Probability, Seed: r.Seed,
		Delay: time.Duration(r.Delay), Status: r.Status, RetryAfter: time.Duration(r.RetryAfter),
		DropWatch: r.DropWatch, FreezeWatch: r.FreezeWatch, StaleReads: r.StaleReads,
	}
}

func (i *Injection) resource() resource {
	f := &i.fault
	return resource{
		ID: i.id, Hits: i.Hits(), Verb: f.Verb, Resource: f.Resource, User: f.User, Name: f.Name, Count: f.Count, Probability: f.Probability, Seed: f.Seed,
		Delay: seconds(f.Delay), Status: f.Status, RetryAfter: seconds(f.RetryAfter),
		DropWatch: f.DropWatch, FreezeWatch: f.FreezeWatch, StaleReads: f.StaleReads,
	}
}

// ServeHTTP is the endpoint of the faults: GET lists them, POST injects one, DELETE removes
// all; of one, GET and DELETE.
func (f *Set) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := strings.Trim(strings.TrimPrefix(r.URL.Path, Path), "/")
	var err error
	switch {
	case id != "":
		err = f.serveOne(w, r, id)
	case r.Method == http.MethodGet:
		all := []resource{}
		for _, i := range f.all() {
			all = append(all, i.resource())
		}
		err = respond(w, http.StatusOK, map[string]any{"faults": all})
	case r.Method == http.MethodPost:
		err = f.post(w, r)
	case r.Method == http.MethodDelete:
		f.Clear()
		w.WriteHeader(http.StatusNoContent)
	default:
		err = apierrors.NewMethodNotSupported(schema.GroupResource{Resource: Path}, r.Method)
	}
	writeError(w, r, err)
}

func (f *Set) serveOne(w http.ResponseWriter, r *http.Request, id string) error {
	number, _ := strconv.Atoi(id) // 0 does not match any fault
	for _, i := range f.all() {
		switch {
		case i.id != number:
		case r.Method == http.MethodGet:
			return respond(w, http.StatusOK, i.resource())
		case r.Method == http.MethodDelete:
			i.Remove()
			return respond(w, http.StatusOK, i.resource())
		default:
			return apierrors.NewMethodNotSupported(schema.GroupResource{Resource: Path}, r.Method)
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: "faults"}, id)
}

func (f *Set) post(w http.ResponseWriter, r *http.Request) error {
	var asked resource
	if err := decode(w, r, &asked); err != nil {
		return err
	}
	if len(f.all()) >= maxFaults {
		return apierrors.NewBadRequest(fmt.Sprintf("there are %d faults already; remove some", maxFaults))
	}
	injected, err := f.Inject(r.Context(), asked.fault())
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return respond(w, http.StatusCreated, injected.resource())
}

// Clock returns the handler of the simulated clock: GET returns the time, and POST advances it by
// the duration in the field advance.
func Clock(world *simulation.World) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Advance seconds `json:"advance"`
		}
		switch r.Method {
		case http.MethodPost:
			if err := decode(w, r, &asked); err != nil {
				writeError(w, r, err)
				return
			}
			world.Advance(time.Duration(asked.Advance))
		case http.MethodGet:
		default:
			writeError(w, r, apierrors.NewMethodNotSupported(schema.GroupResource{Resource: ClockPath}, r.Method))
			return
		}
		writeError(w, r, respond(w, http.StatusOK, map[string]any{"time": world.Now().UTC()}))
	})
}

// decode reads a body of JSON, of which each field must be known.
func decode(w http.ResponseWriter, r *http.Request, into any) error {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if err == nil && decoder.More() {
		err = errors.New("something follows the object")
	}
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxBody))
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("it is empty")
	}
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("decode the JSON body: %v", err))
	}
	return nil
}

func respond(w http.ResponseWriter, code int, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(text, '\n')) // the client may have disconnected
	return nil
}

func writeError(w http.ResponseWriter, r *http.Request, err error) {
	if err != nil {
		endpoints.WriteStatus(w, r, endpoints.StatusOf(err))
	}
}
