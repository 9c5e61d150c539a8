package recent

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Statistics are the recorded samples, oldest first.
type Statistics struct {
	APIVersion    string `json:"apiVersion"`
	Kind          string `json:"kind"`
	PeriodSeconds int    `json:"periodSeconds"`
	// Times are the times of the samples, in Unix seconds.
	Times  []int64  `json:"times"`
	Series []Series `json:"series"`
}

// Series is a series of Statistics. Values has one element for each element of Statistics.Times.
type Series struct {
	Name   string `json:"name"`
	Label  string `json:"label"`
	Unit   string `json:"unit"`
	Values Values `json:"values"`
}

// Values are the values of a series. NaN means that a value is missing. It is encoded as null.
type Values []float32

// MarshalJSON implements json.Marshaler.
func (v Values) MarshalJSON() ([]byte, error) {
	b := []byte{'['}
	for i, x := range v {
		if i > 0 {
			b = append(b, ',')
		}
		if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
			b = append(b, "null"...)
		} else {
			b = strconv.AppendFloat(b, f, 'g', -1, 32)
		}
	}
	return append(b, ']'), nil
}

// Statistics returns a copy of the recorded samples. The series are sorted by name and label.
func (r *Recorder) Statistics() *Statistics {
	r.mu.Lock()
	defer r.mu.Unlock()
	oldest := max(0, r.mu.count-Samples)
	s := &Statistics{
		APIVersion: "mainstay.dev/v1", Kind: "Statistics", PeriodSeconds: int(Period / time.Second),
		Times: make([]int64, 0, r.mu.count-oldest), Series: make([]Series, 0, len(r.mu.series)),
	}
	for n := oldest; n < r.mu.count; n++ {
		s.Times = append(s.Times, r.mu.times[n%Samples])
	}
	for key, recorded := range r.mu.series {
		values := make(Values, 0, len(s.Times))
		for n := oldest; n < r.mu.count; n++ {
			values = append(values, recorded.values[n%Samples])
		}
		s.Series = append(s.Series, Series{Name: key.name, Label: key.label, Unit: recorded.unit, Values: values})
	}
	slices.SortFunc(s.Series, func(a, b Series) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Label, b.Label))
	})
	return s
}

// ServeHTTP responds with the Statistics as JSON. It does not check the method of the request.
func (r *Recorder) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	var body bytes.Buffer
	if err := json.NewEncoder(&body).Encode(r.Statistics()); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body.Bytes()) // an error means that the client has disconnected
}
