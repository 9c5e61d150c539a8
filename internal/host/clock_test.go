package host

import (
	"encoding/json"
	"net/http"
	"strconv"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/simulation"
)

// TestClockJumps moves the clock forwards and backwards by up to two hours. It checks that a watch
// continues, that no write is lost, that the server stays ready, and that a token is valid only within its
// lifetime.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	sim := simulation.New(simulation.Config{})
	s := startWithAccount(t, Config{Testing: TestingConfig{Simulation: sim}})
	token := s.token(t, `{"expirationSeconds":1800}`).Status.Token
	watch, err := s.admin.Get(s.URL + configMaps + "?watch=true&timeoutSeconds=600")
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Body.Close()
	events := json.NewDecoder(watch.Body)
	next := func(want string) {
		t.Helper()
		for {
			var event struct {
				Type   string
				Object struct{ Metadata struct{ Name string } }
			}
			if err := events.Decode(&event); err != nil {
				t.Fatalf("the watch of %s: %v", want, err)
			}
			if event.Type == "ADDED" && event.Object.Metadata.Name == want {
				return
			}
		}
	}
	for i, step := range []struct {
		jump  time.Duration
		valid bool
	}{{0, true}, {time.Hour, false}, {-time.Hour, true}, {-time.Hour, false}, {2 * time.Hour, false}, {-time.Hour, true}} {
		sim.Advance(step.jump)
		name := "step-" + strconv.Itoa(i)
		if code, body := s.do(t, "POST", configMaps, `{"metadata":{"name":"`+name+`"}}`); code != 201 {
			t.Fatalf("after a jump of %s: %d %s", step.jump, code, body)
		}
		next(name)
		if got := s.review(t, token).Authenticated; got != step.valid {
			t.Errorf("after a jump of %s, the token is valid: %t, want %t", step.jump, got, step.valid)
		}
		s.awaitCode(t, "/readyz", 200)
	}
	for i := range 6 {
		if code, body := s.do(t, "GET", configMaps+"/step-"+strconv.Itoa(i), ""); code != 200 {
			t.Errorf("get the object of step %d: %d %s", i, code, body)
		}
	}
}

// TestAgesInWatch checks that a watch of tables shows the ages of objects at the time of the event.
func TestAgesInWatch(t *testing.T) {
	t.Parallel()
	sim := simulation.New(simulation.Config{})
	s := startWithAccount(t, Config{Testing: TestingConfig{Simulation: sim}})
	request, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+configMaps+"?watch=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	watch, err := s.admin.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Body.Close()
	events := json.NewDecoder(watch.Body)
	sim.Advance(time.Hour)
	if code, body := s.do(t, "POST", configMaps, `{"metadata":{"name":"new"}}`); code != 201 {
		t.Fatalf("create a ConfigMap: %d %s", code, body)
	}
	for {
		var event struct {
			Object struct{ Rows []struct{ Cells []any } }
		}
		if err := events.Decode(&event); err != nil {
			t.Fatal(err)
		}
		if cells := event.Object.Rows[0].Cells; cells[0] == "new" {
			if age := cells[len(cells)-1]; age != "0s" {
				t.Errorf("the age of a new object is %v, want 0s", age)
			}
			return
		}
	}
}
