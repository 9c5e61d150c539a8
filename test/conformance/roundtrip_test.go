package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"mainstay.dev/mainstay/test/testserver"
)

// TestRoundTrip creates the fixture of every built-in kind in every encoding. kube-apiserver rejects most
// fixtures, because all their fields are set; testdata/facts/fixtures.tsv contains the statuses that 1.36
// returned. The response must not depend on the encoding, and accepted objects must be read back unchanged in
// every encoding.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	facts := defaultFacts(t)
	dir, err := FixturesDir()
	if err != nil {
		t.Fatal(err)
	}
	trip := newRoundTrip(t, dir)
	for _, fact := range facts {
		if strings.Contains(fact.Name, "/") || !strings.Contains(fact.Verbs, "create") || !strings.Contains(fact.Verbs, "get") {
			continue
		}
		t.Run(fact.Key(), func(t *testing.T) {
			t.Parallel()
			trip.kind(t, fact)
		})
	}
}

// roundTrip is the state that the subtests share.
type roundTrip struct {
	dir       string
	base      string
	namespace string
	client    *http.Client
	statuses  map[string]int // recorded statuses of creations, by resource; newer kinds have none
	known     Known

	mu  sync.Mutex
	now Known // found in this run
}

func newRoundTrip(t *testing.T, dir string) *roundTrip {
	t.Helper()
	srv := testserver.New(t, testserver.Options{Flags: recordedFlags})
	config := srv.RESTConfig()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	trip := &roundTrip{dir: dir, base: srv.URL(), namespace: "round-trip", client: client, statuses: map[string]int{}, now: Known{}}
	list := filepath.Join("testdata", "known", "fixtures.txt")
	t.Cleanup(func() {
		if *update {
			if err := trip.now.Write(list); err != nil {
				t.Error(err)
			}
		}
	})
	err = eachRow("testdata/facts/fixtures.tsv", 2, func(r []string) { trip.statuses[r[0]], _ = strconv.Atoi(r[1]) })
	if err != nil {
		t.Fatal(err)
	}
	if trip.known, err = ReadKnown(list); err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: trip.namespace}}
	if _, err := kubernetes.NewForConfigOrDie(config).CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return trip
}

// kind creates the fixture of one kind in every format.
func (trip *roundTrip) kind(t *testing.T, fact Fact) {
	var first string
	for _, format := range Formats() {
		object, err := ReadFixture(trip.dir, fact, format)
		if errors.Is(err, fs.ErrNotExist) {
			t.Skip("the module has no fixture of this kind")
		}
		if err != nil {
			t.Fatal(err)
		}
		// Names have the same length in all formats, because messages can contain them.
		name := strings.NewReplacer("/", "-", ".", "-").Replace(fact.Key()) + "-" + (format.Name + "xx")[:4]
		namespace := ""
		if fact.Namespaced == "true" {
			namespace = trip.namespace
		}
		if err := MakeOwn(object, namespace, name); err != nil {
			t.Fatal(err)
		}
		status, liveResponse := trip.create(t, fact, format, object)
		asRecorded := trip.check(t, fact, status, liveResponse)
		same := fmt.Sprint(status) + strings.ReplaceAll(causes(liveResponse), name, "NAME")
		if first == "" {
			first = same
		} else if first != same {
			t.Errorf("as %s the response is\n%s\nas json it was\n%s", format.Name, same, first)
		}
		if status == http.StatusCreated && asRecorded {
			trip.readBack(t, fact, object, name)
		}
	}
}

func (trip *roundTrip) collection(fact Fact) string {
	return trip.base + fact.collection(trip.namespace)
}

// create posts the object and returns the status and the decoded response.
func (trip *roundTrip) create(t *testing.T, fact Fact, format Format, object runtime.Object) (int, runtime.Object) {
	t.Helper()
	body, err := format.Encode(object)
	if err != nil {
		t.Fatal(err)
	}
	return trip.exchange(t, http.MethodPost, trip.collection(fact), format, body)
}

func (trip *roundTrip) exchange(t *testing.T, method, url string, format Format, body []byte) (int, runtime.Object) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", format.MediaType)
	req.Header.Set("Accept", format.MediaType)
	resp, err := trip.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	got, err := readAnswer(resp)
	if err != nil {
		t.Fatal(err)
	}
	liveResponse, err := format.Decode(got.body)
	if err != nil {
		t.Fatalf("%s %s: status %d, %v\n%q", method, url, got.status, err, got.body)
	}
	return got.status, liveResponse
}

// check compares the status with the recorded one, and reports whether they are equal.
func (trip *roundTrip) check(t *testing.T, fact Fact, status int, liveResponse runtime.Object) bool {
	t.Helper()
	want, recorded := trip.statuses[fact.Key()]
	key := stepKey{fact.Key(), 1}
	reason, listed := trip.known[key]
	if *update {
		if recorded && status != want {
			trip.recordMismatch(key, fmt.Sprintf("status %d, recorded is %d", status, want))
		}
		return status == want
	}
	switch {
	case status >= 500:
		t.Errorf("status %d: %s", status, message(liveResponse))
	case !recorded:
	case status != want && !listed:
		t.Errorf("status %d, want %d: %s", status, want, message(liveResponse))
	case status == want && listed:
		t.Logf("status %d as recorded, although the kind is listed as known to differ (%s): run with -update", status, reason)
	}
	return !recorded || status == want
}

func (trip *roundTrip) recordMismatch(key stepKey, reason string) {
	trip.mu.Lock()
	defer trip.mu.Unlock()
	trip.now[key] = reason
}

// causes returns the sorted causes of a Status. It sorts them because the order of some causes is random.
func causes(liveResponse runtime.Object) string {
	s, ok := liveResponse.(*metav1.Status)
	if !ok || s.Details == nil {
		return message(liveResponse)
	}
	var all []string
	for _, cause := range s.Details.Causes {
		all = append(all, fmt.Sprintf("%s %s %s", cause.Field, cause.Type, cause.Message))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

func message(liveResponse runtime.Object) string {
	if s, ok := liveResponse.(*metav1.Status); ok {
		return s.Message
	}
	return ""
}

// readBack reads the object in every format and compares it with the sent object. It ignores the status.
func (trip *roundTrip) readBack(t *testing.T, fact Fact, sent runtime.Object, name string) {
	t.Helper()
	var first any
	for _, format := range Formats() {
		status, got := trip.exchange(t, http.MethodGet, trip.collection(fact)+"/"+name, format, nil)
		if status != http.StatusOK {
			t.Errorf("get as %s: status %d", format.Name, status)
			continue
		}
		value := jsonValue(t, got)
		if first == nil {
			first = value
		} else if !reflect.DeepEqual(first, value) {
			t.Errorf("object as %s:\n%v\nobject as json:\n%v", format.Name, value, first)
		}
		want := jsonValue(t, sent).(map[string]any)
		delete(want, "status")
		for _, difference := range missing(fact.Name, want, value) {
			t.Errorf("as %s: %s", format.Name, difference)
		}
	}
	trip.exchange(t, http.MethodDelete, trip.collection(fact)+"/"+name+"?gracePeriodSeconds=0", Formats()[0], nil)
}

func jsonValue(t *testing.T, object runtime.Object) any {
	t.Helper()
	body, err := Formats()[0].Encode(object)
	if err != nil {
		t.Fatal(err)
	}
	value, err := decodeJSON(body)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// changedFields are the fields that a server changes when it stores an object.
var changedFields = map[string]string{
	"secrets.stringData":          "moves into data",
	"serviceaccounts.secrets":     "only the names are kept",
	"leases.spec.strategy":        "belongs to coordinated leader election, which is off",
	"leases.spec.preferredHolder": "belongs to coordinated leader election, which is off",
}

// missing returns the paths of the fields in want that are missing from got or have a different value there.
func missing(path string, want, got any) []string {
	if _, known := changedFields[path]; known {
		return nil
	}
	w, ok := want.(map[string]any)
	if !ok {
		if !reflect.DeepEqual(want, got) {
			return []string{fmt.Sprintf("%s: sent %v, got %v", path, want, got)}
		}
		return nil
	}
	g, _ := got.(map[string]any)
	var differences []string
	for key, value := range w {
		if value != nil {
			differences = append(differences, missing(path+"."+key, value, g[key])...)
		}
	}
	return differences
}
