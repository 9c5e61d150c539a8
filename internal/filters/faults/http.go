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

// Paths of the HTTP endpoints. By default, only system:masters may access them.
const (
	// Path is the path of the list of faults. A single fault has the path Path/ID.
	Path = "/mainstay/v1/faults"
	// ClockPath is the path of the simulated clock.
	ClockPath = "/mainstay/v1/clock"
)

// Limits of requests to the endpoint.
const (
	maxBody   = 64 << 10
	maxFaults = 1000
)

// faultJSON is the JSON form of a fault. Durations are strings, such as 1.5s.
type faultJSON struct {
	ID          int          `json:"id"`
	Hits        int          `json:"hits"`
	Verb        string       `json:"verb,omitempty"`
	Resource    string       `json:"resource,omitempty"`
	User        string       `json:"user,omitempty"`
	Name        string       `json:"name,omitempty"`
	Count       int          `json:"count,omitempty"`
	Probability float64      `json:"probability,omitempty"`
	Seed        uint64       `json:"seed,omitempty"`
	Delay       jsonDuration `json:"delay,omitzero"`
	Status      int          `json:"status,omitempty"`
	RetryAfter  jsonDuration `json:"retryAfter,omitzero"`
	DropWatch   bool         `json:"dropWatch,omitempty"`
	FreezeWatch bool         `json:"freezeWatch,omitempty"`
	StaleReads  bool         `json:"staleReads,omitempty"`
}

// jsonDuration is a duration that is encoded as a string.
type jsonDuration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (s jsonDuration) MarshalText() ([]byte, error) { return []byte(time.Duration(s).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *jsonDuration) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	*s = jsonDuration(d)
	return err
}

func (r *faultJSON) fault() Fault {
	return Fault{
		Verb: r.Verb, Resource: r.Resource, User: r.User, Name: r.Name, Count: r.Count, Probability: r.Probability, Seed: r.Seed,
		Delay: time.Duration(r.Delay), Status: r.Status, RetryAfter: time.Duration(r.RetryAfter),
		DropWatch: r.DropWatch, FreezeWatch: r.FreezeWatch, StaleReads: r.StaleReads,
	}
}

func (i *Injection) resource() faultJSON {
	f := &i.fault
	return faultJSON{
		ID: i.id, Hits: i.Hits(), Verb: f.Verb, Resource: f.Resource, User: f.User, Name: f.Name, Count: f.Count, Probability: f.Probability, Seed: f.Seed,
		Delay: jsonDuration(f.Delay), Status: f.Status, RetryAfter: jsonDuration(f.RetryAfter),
		DropWatch: f.DropWatch, FreezeWatch: f.FreezeWatch, StaleReads: f.StaleReads,
	}
}

// ServeHTTP implements http.Handler for the faults below Path. For the list, GET returns all faults, POST
// injects one and DELETE removes all. For a single fault, GET returns it and DELETE removes it.
func (f *Set) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := strings.Trim(strings.TrimPrefix(r.URL.Path, Path), "/")
	var err error
	switch {
	case id != "":
		err = f.serveOne(w, r, id)
	case r.Method == http.MethodGet:
		all := []faultJSON{}
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
	var body faultJSON
	if err := decode(w, r, &body); err != nil {
		return err
	}
	if len(f.all()) >= maxFaults {
		return apierrors.NewBadRequest(fmt.Sprintf("there are %d faults already; remove some", maxFaults))
	}
	injected, err := f.Inject(r.Context(), body.fault())
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return respond(w, http.StatusCreated, injected.resource())
}

// Clock returns the handler of the simulated clock at ClockPath. GET returns the time, and POST
// advances it by the duration in the field advance.
func Clock(sim *simulation.Simulation) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Advance jsonDuration `json:"advance"`
		}
		switch r.Method {
		case http.MethodPost:
			if err := decode(w, r, &body); err != nil {
				writeError(w, r, err)
				return
			}
			sim.Advance(time.Duration(body.Advance))
		case http.MethodGet:
		default:
			writeError(w, r, apierrors.NewMethodNotSupported(schema.GroupResource{Resource: ClockPath}, r.Method))
			return
		}
		writeError(w, r, respond(w, http.StatusOK, map[string]any{"time": sim.Now().UTC()}))
	})
}

// decode decodes a request body that consists of one JSON object. Unknown fields are an error.
func decode(w http.ResponseWriter, r *http.Request, into any) error {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if err == nil && decoder.More() {
		err = errors.New("unexpected data after the object")
	}
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxBody))
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("the body is empty")
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
