package conformance

import (
	"encoding/json"
	"net/http"
	"testing"
)

func TestWithoutDump(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		`Required value`: `Required value`,
		`Invalid value: {"a":{"b":"}"}}: must not be`:            `Invalid value: …: must not be`,
		`Duplicate value: {"Name":"x"}`:                          `Duplicate value: …`,
		`Invalid value: ["a","b"]: may only hold up to 2 values`: `Invalid value: …: may only hold up to 2 values`,
		`Invalid value: {core.Pod`:                               `Invalid value: …`,
		"Forbidden: may not change\n  core.PodSpec{":             "Forbidden: may not change",
	} {
		if got := withoutDump(message); got != want {
			t.Errorf("%s: got %s, want %s", message, got, want)
		}
	}
}

func TestCompareRejections(t *testing.T) {
	t.Parallel()
	status := func(causes string) []byte {
		return []byte(`{"kind":"Status","code":422,"reason":"Invalid","message":"m","details":{"causes":[` + causes + `]}}`)
	}
	const a, b = `{"reason":"FieldValueInvalid","message":"x","field":"a"}`, `{"reason":"FieldValueInvalid","message":"x","field":"b"}`
	for _, tt := range []struct {
		name  string
		want  []byte
		got   liveResponse
		count int
	}{
		{"same", status(a + "," + b), liveResponse{status: 422, body: status(a + "," + b)}, 0},
		{"another order", status(a + "," + b), liveResponse{status: 422, body: status(b + "," + a)}, 0},
		{"said twice", status(a + "," + a), liveResponse{status: 422, body: status(a)}, 0},
		{"one is missing", status(a + "," + b), liveResponse{status: 422, body: status(a)}, 1},
		{"one too many", status(a), liveResponse{status: 422, body: status(a + "," + b)}, 1},
		{"another one", status(a), liveResponse{status: 422, body: status(b)}, 2},
		{"accepted", status(a), liveResponse{status: 201, body: []byte(`{}`)}, 1},
		{"another code", status(a), liveResponse{status: 400, body: []byte(`{"code":400,"reason":"BadRequest"}`)}, 1},
	} {
		c := &Comparison{Memory: NewMemory()}
		compareVerdict(c, Step{Response: Response{Status: http.StatusUnprocessableEntity, Body: json.RawMessage(tt.want)}}, tt.got)
		if len(c.Differences) != tt.count {
			t.Errorf("%s: differences %q, want %d", tt.name, c.Differences, tt.count)
		}
	}
}
