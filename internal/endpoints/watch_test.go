package endpoints_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/endpoints"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
)

// event is one frame of a JSON watch.
type event struct {
	Type   string
	Object json.RawMessage
}

func (e event) String() string {
	var object struct {
		Kind     string
		Message  string
		Reason   string
		Metadata metav1.ObjectMeta
	}
	_ = json.Unmarshal(e.Object, &object)
	return strings.TrimSpace(fmt.Sprintf("%s %s %s %s", e.Type, object.Kind, object.Metadata.Name+object.Reason, object.Message))
}

// watching is a watch of an API that is served over HTTP.
type watching struct {
	testing.TB
	body    *bufio.Reader
	header  http.Header
	decoder *json.Decoder
}

// watch starts a watch and waits for the response headers.
func (a *api) watch(target string, headers ...string) *watching {
	a.Helper()
	server := httptest.NewServer(a)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	a.Cleanup(func() { cancel(); server.CloseClientConnections(); server.Close() })
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+target, nil)
	if err != nil {
		a.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		a.Fatal(err)
	}
	a.Cleanup(func() { _ = response.Body.Close() })
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(response.Body)
		a.Fatalf("watch %s: %d %s", target, response.StatusCode, body)
	}
	body := bufio.NewReader(response.Body)
	return &watching{TB: a.TB, body: body, header: response.Header, decoder: json.NewDecoder(body)}
}

func (w *watching) next() event {
	w.Helper()
	var e event
	if err := w.decoder.Decode(&e); err != nil {
		w.Fatal(err)
	}
	return e
}

// want reads as many events as there are texts, and compares them.
func (w *watching) want(texts ...string) {
	w.Helper()
	var got []string
	for range texts {
		got = append(got, w.next().String())
	}
	if diff := cmp.Diff(texts, got); diff != "" {
		w.Errorf("events (-want +got):\n%s", diff)
	}
}

// ended checks that the stream ends without further events.
func (w *watching) ended() {
	w.Helper()
	var e event
	if err := w.decoder.Decode(&e); err != io.EOF {
		w.Errorf("%v, %v; want the end of the stream", e, err)
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	first := a.configMap("a", "")
	w := a.watch(inA + "configmaps?watch=1&resourceVersion=" + first.ResourceVersion)
	if got := w.header.Get("Content-Type"); got != jsonType {
		t.Errorf("Content-Type %s", got)
	}
	created := a.must("POST "+inA+"configmaps", `{"metadata":{"name":"b"}}`).Body.String()
	a.must("PATCH "+inA+"configmaps/b", `{"data":{"k":"v"}}`, "Content-Type", mergeT)
	a.must("POST /api/v1/namespaces/other/configmaps", `{"metadata":{"name":"x"}}`)
	a.must("DELETE "+inA+"configmaps/b", "")
	line, err := w.body.ReadString('\n')
	if want := `{"type":"ADDED","object":` + strings.TrimSpace(created) + "}\n"; err != nil || line != want {
		t.Errorf("%v\ngot  %swant %s", err, line, want)
	}
	w.want("MODIFIED ConfigMap b", "DELETED ConfigMap b")
}

func TestWatchBegins(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	a.configMap("a", "")
	a.configMap("b", "")
	for _, target := range []string{
		"/api/v1/watch/namespaces/a/configmaps?x=1", "/api/v1/watch/configmaps?x=1", "/api/v1/configmaps?watch", inA + "configmaps?watch=1", inA + "configmaps?watch=maybe", inA + "configmaps?watch=1&resourceVersion=0",
	} {
		a.watch(target+"&timeoutSeconds=1").want("ADDED ConfigMap a", "ADDED ConfigMap b")
	}
	// Watch one object, either by its path, which is deprecated, or by a field selector for its name.
	for _, target := range []string{"/api/v1/watch/namespaces/a/configmaps/b?x=1", inA + "configmaps?watch=1&fieldSelector=metadata.name%3Db"} {
		w := a.watch(target + "&timeoutSeconds=1")
		w.want("ADDED ConfigMap b")
		w.ended()
	}
	// If bookmarks are allowed, a bookmark marks the end of the initial events.
	for _, query := range []string{"", "&resourceVersion=0"} {
		w := a.watch(inA + "configmaps?watch=1&allowWatchBookmarks=true" + query)
		w.want("ADDED ConfigMap a", "ADDED ConfigMap b")
		if mark := w.next(); mark.Type != "BOOKMARK" || !strings.Contains(string(mark.Object), metav1.InitialEventsAnnotationKey) {
			t.Errorf("watch with %q: event %s %s, want the bookmark of the initial events", query, mark.Type, mark.Object)
		}
	}
	// In a table, the row of a bookmark shows an empty object.
	w := a.watch(inA+"configmaps?watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", "Accept", tableT)
	w.next()
	w.next()
	if mark := w.next(); mark.Type != "BOOKMARK" || !strings.Contains(string(mark.Object), `"cells":["","0001-01-01T00:00:00Z"]`) {
		t.Errorf("event %s %s, want a bookmark with the cells of an empty object", mark.Type, mark.Object)
	}
	a.do("GET /api/v1/watch/namespaces/a/configmaps/b?fieldSelector=metadata.name%3Da", "").
		want(400, `both a name and a field selector provided ("b", "metadata.name=a"); please provide one or the other`)
	a.do("GET "+inA+"configmaps?watch=1", "", "Accept", "text/html").want(406, availableLists)
	a.do("GET "+inA+"configmaps?watch=1", "", "Accept", yamlType).want(406, "")
	a.do("GET "+inA+"configmaps?watch=1", "", "Accept", listT).
		want(406, "you requested PartialObjectMetadataList, but the requested object is not a list (*core.ConfigMap)")
}

func TestWatchSelects(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	w := a.watch(inA + "pods?watch=1&labelSelector=app%3Dweb")
	label := func(value string) {
		a.must("PATCH "+inA+"pods/p", fmt.Sprintf(`{"metadata":{"labels":{"app":%q}}}`, value), "Content-Type", mergeT)
	}
	a.must("POST "+inA+"pods", `{"metadata":{"name":"p"}}`)
	label("web") // starts to match
	a.must("PATCH "+inA+"pods/p", `{"spec":{"nodeName":"n"}}`, "Content-Type", mergeT)
	label("db") // stops matching
	label("web")
	a.must("DELETE "+inA+"pods/p?gracePeriodSeconds=0", "")
	w.want("ADDED Pod p", "MODIFIED Pod p", "DELETED Pod p", "ADDED Pod p", "MODIFIED Pod p", "DELETED Pod p")
}

func TestWatchList(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	a.configMap("a", "")
	const query = "configmaps?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
	w := a.watch(inA + query)
	w.want("ADDED ConfigMap a")
	mark := w.next()
	var object corev1.ConfigMap
	if err := json.Unmarshal(mark.Object, &object); err != nil || mark.Type != "BOOKMARK" || object.Kind != "ConfigMap" || object.ResourceVersion == "" ||
		object.Annotations[metav1.InitialEventsAnnotationKey] != "true" {
		t.Errorf("event %s %s, want the bookmark of the initial events", mark.Type, mark.Object)
	}
	a.configMap("b", "")
	w.want("ADDED ConfigMap b")

	// Bookmarks have the format of the events: a Table or a PartialObjectMetadata.
	tables := a.watch(inA+query, "Accept", tableT)
	tables.next()
	tables.next()
	var table metav1.Table
	if err := json.Unmarshal(tables.next().Object, &table); err != nil || len(table.Rows) != 1 || table.Rows[0].Cells[0] != "" || !strings.Contains(string(table.Rows[0].Object.Raw), metav1.InitialEventsAnnotationKey) {
		t.Errorf("%v in %+v", err, table)
	}
	partials := a.watch(inA+query, "Accept", partialT)
	partials.want("ADDED PartialObjectMetadata a", "ADDED PartialObjectMetadata b")
	if mark := partials.next(); mark.String() != "BOOKMARK PartialObjectMetadata" || !strings.Contains(string(mark.Object), metav1.InitialEventsAnnotationKey) {
		t.Errorf("event %s, want the bookmark of the initial events as metadata", mark.Object)
	}
}

func TestWatchTables(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	w := a.watch(inA+"pods?watch=1", "Accept", tableT)
	for i := range 3 {
		created := a.must("POST "+inA+"pods", fmt.Sprintf(`{"metadata":{"name":"p%d"},"spec":{"nodeName":"n"}}`, i)).pod()
		e := w.next()
		var table metav1.Table
		if err := json.Unmarshal(e.Object, &table); err != nil {
			t.Fatal(err)
		}
		if e.Type != "ADDED" || len(table.Rows) != 1 || table.Rows[0].Cells[0] != created.Name || table.ResourceVersion != created.ResourceVersion {
			t.Errorf("event %s %s, want ADDED with one row", e.Type, e.Object)
		}
		if (len(table.ColumnDefinitions) > 0) != (i == 0) {
			t.Errorf("event %d: columns %v; want them in the first one only", i, table.ColumnDefinitions)
		}
	}
}

// frame reads one frame of a protobuf watch.
func (w *watching) frame() (string, runtime.Object) {
	w.Helper()
	var length [4]byte
	if _, err := io.ReadFull(w.body, length[:]); err != nil {
		w.Fatal(err)
	}
	frame := make([]byte, binary.BigEndian.Uint32(length[:]))
	if _, err := io.ReadFull(w.body, frame); err != nil {
		w.Fatal(err)
	}
	return readFrame(w.TB, frame)
}

func readFrame(t testing.TB, frame []byte) (string, runtime.Object) {
	t.Helper()
	var e metav1.WatchEvent
	if err := e.Unmarshal(frame); err != nil {
		t.Fatal(err)
	}
	obj, err := runtime.Decode(scheme.Codecs.UniversalDeserializer(), e.Object.Raw)
	if err != nil {
		t.Fatal(err)
	}
	return e.Type, obj
}

func TestWatchProtobuf(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	w := a.watch(inA+"configmaps?watch=1", "Accept", protobufType+";stream=watch,"+protobufType)
	if got := w.header.Get("Content-Type"); got != protobufType+";stream=watch" {
		t.Errorf("Content-Type %s", got)
	}
	created := a.configMap("a", `"k":"`+strings.Repeat("x", 300)+`"`)
	a.must("DELETE "+inA+"configmaps/a", "")
	for _, want := range []string{"ADDED", "DELETED"} {
		kind, obj := w.frame()
		if c := obj.(*corev1.ConfigMap); kind != want || c.UID != created.UID || len(c.Data["k"]) != 300 {
			t.Errorf("event %s %+v, want %s", kind, c, want)
		}
	}
}

// scripted is a storage whose watches return events from a channel and then an error.
type scripted struct {
	events chan []rest.Event
	err    error
}

func (s *scripted) Watch(context.Context, string, rest.ListOptions) (rest.Watch, error) {
	return s, nil
}

func (s *scripted) Next(ctx context.Context) ([]rest.Event, error) {
	select {
	case events, ok := <-s.events:
		if !ok {
			return nil, s.err
		}
		return events, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *scripted) Close() error { return nil }

// serve serves one request for the resource configmaps with the given storage.
func serve(w http.ResponseWriter, r *http.Request, store rest.Storage, config endpoints.Config) {
	kind := kindOf("", "v1", "ConfigMap", func() codec.Object { return new(corev1.ConfigMap) })
	serveResource(w, r, &rest.Resource{
		GroupVersion: kind.Hub.GVK.GroupVersion(), Name: "configmaps", Namespaced: true, Kind: kind, Version: kind.Hub, Storage: store,
	}, config)
}

func serveResource(w http.ResponseWriter, r *http.Request, resource *rest.Resource, config endpoints.Config) {
	info, err := request.Parse(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	endpoints.New(config).Serve(w, r.WithContext(contextOf(r, &info)), resource)
}

// contextOf returns the context that the filters would set for a request.
func contextOf(r *http.Request, info *request.Info) context.Context {
	if info.Verb != "watch" {
		return request.NewContext(r.Context(), info, time.Now())
	}
	parent, cancel := context.WithCancelCause(r.Context())
	ctx := request.NewContext(parent, info, time.Now())
	request.SetLongRunning(ctx, cancel)
	return ctx
}

// record returns a stored configmap at a revision.
func record(t testing.TB, name string, revision int64) *codec.Record {
	t.Helper()
	kind := kindOf("", "v1", "ConfigMap", func() codec.Object { return new(corev1.ConfigMap) })
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
	value, err := kind.EncodeStored(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return codec.RecordOf(kind, c, value, revision)
}

// TestWatchErrors checks that an error that is relevant to the client is sent as the last event, and that
// no event is sent if a watch ends regularly.
func TestWatchErrors(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err  error
		want string // the last event; may be empty
	}{
		"expired": {&storage.ExpiredError{Message: "too old resource version: 1 (5)"}, "ERROR Status Expired too old resource version: 1 (5)"},
		"future":  {&storage.FutureRevisionError{Requested: 9, Current: 5}, "ERROR Status Timeout Timeout: Too large resource version: 9, current: 5"},
		"closed":  {rest.ErrWatchClosed, ""},
		"trouble": {io.ErrUnexpectedEOF, "ERROR Status InternalError unexpected EOF"},
	} {
		for _, media := range []string{jsonType, protobufType, tableT} {
			t.Run(name+"/"+media, func(t *testing.T) {
				t.Parallel()
				store := &scripted{events: make(chan []rest.Event, 1), err: test.err}
				store.events <- []rest.Event{{Type: "ADDED", Record: record(t, "a", 5)}}
				close(store.events)
				w := httptest.NewRecorder()
				r := newRequest("GET "+inA+"configmaps?watch=1", nil)
				r.Header.Set("Accept", media)
				serve(w, r, store, endpoints.Config{})
				got := events(t, w.Body.Bytes(), media)
				if len(got) == 0 || w.Code != http.StatusOK {
					t.Fatalf("watch: code %d, events %v, want code 200 with events", w.Code, got)
				}
				want := []string{got[0]}
				if test.want != "" {
					want = append(want, test.want)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestWatchOfUnreadableObject checks that an object that cannot be decoded ends the stream with an
// error event after the preceding events.
func TestWatchOfUnreadableObject(t *testing.T) {
	t.Parallel()
	for _, media := range []string{jsonType, protobufType, tableT, partialT} {
		broken := codec.NewRecord(record(t, "b", 6).Kind(), types.NamespacedName{Namespace: "a", Name: "b"}, []byte("nonsense"), 6)
		store := &scripted{events: make(chan []rest.Event, 2), err: rest.ErrWatchClosed}
		store.events <- []rest.Event{{Type: "ADDED", Record: record(t, "a", 5)}, {Type: "ADDED", Record: broken}, {Type: "ADDED", Record: record(t, "c", 7)}}
		store.events <- []rest.Event{{Type: "ADDED", Record: record(t, "d", 8)}}
		close(store.events)
		w := httptest.NewRecorder()
		r := newRequest("GET "+inA+"configmaps?watch=1", nil)
		r.Header.Set("Accept", media)
		serve(w, r, store, endpoints.Config{})
		got := events(t, w.Body.Bytes(), media)
		if len(got) != 2 || !strings.HasPrefix(got[0], "ADDED") || !strings.HasPrefix(got[1], "ERROR Status InternalError ") {
			t.Errorf("%s: events %q, want ADDED and ERROR", media, got)
		}
	}
}

// events decodes all events in the body of a watch.
func events(t testing.TB, body []byte, media string) []string {
	t.Helper()
	var out []string
	if media != protobufType {
		decoder := json.NewDecoder(bytes.NewReader(body))
		for {
			var e event
			if err := decoder.Decode(&e); err == io.EOF {
				return out
			} else if err != nil {
				t.Fatal(err)
			}
			out = append(out, e.String())
		}
	}
	for len(body) > 4 {
		n := binary.BigEndian.Uint32(body)
		kind, obj := readFrame(t, body[4:4+n])
		text := kind + " " + obj.GetObjectKind().GroupVersionKind().Kind
		switch obj := obj.(type) {
		case *metav1.Status:
			text = kind + " Status " + string(obj.Reason) + " " + obj.Message
		case metav1.Object:
			text += " " + obj.GetName()
		}
		out = append(out, text)
		body = body[4+n:]
	}
	return out
}

func TestWatchBatches(t *testing.T) {
	t.Parallel()
	store := &scripted{events: make(chan []rest.Event, 2), err: rest.ErrWatchClosed}
	store.events <- []rest.Event{{Type: "ADDED", Record: record(t, "a", 5)}, {Type: "MODIFIED", Record: record(t, "a", 6)}, {Type: "BOOKMARK", Revision: 7}}
	store.events <- []rest.Event{{Type: "DELETED", Record: record(t, "a", 8)}}
	close(store.events)
	var told []string
	w := httptest.NewRecorder()
	serve(w, newRequest("GET "+inA+"configmaps?watch=1", nil), store, endpoints.Config{OnWatchEvents: func(r *rest.Resource, events, bytes int) {
		told = append(told, fmt.Sprint(r.Name, events, bytes > 100))
	}})
	if diff := cmp.Diff([]string{"ADDED ConfigMap a", "MODIFIED ConfigMap a", "BOOKMARK ConfigMap", "DELETED ConfigMap a"}, events(t, w.Body.Bytes(), jsonType)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"configmaps3 true", "configmaps1 true"}, told); diff != "" {
		t.Errorf("reported (-want +got):\n%s", diff)
	}
}

func TestWatchEnds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		config endpoints.Config
		query  string
		end    func(cancel func())
	}{
		"after its own time": {query: "&timeoutSeconds=1"},
		"after the server's": {config: endpoints.Config{MinWatchTimeout: time.Millisecond}},
		"with its request":   {end: func(cancel func()) { cancel() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &scripted{events: make(chan []rest.Event, 1)}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			store.events <- []rest.Event{{Type: "ADDED", Record: record(t, "a", 5)}}
			w := httptest.NewRecorder()
			var wg sync.WaitGroup
			wg.Go(func() {
				serve(w, newRequest("GET "+inA+"configmaps?watch=1"+test.query, nil).WithContext(ctx), store, test.config)
			})
			if test.end != nil {
				store.events <- nil // received after the first batch was sent
				test.end(cancel)
			}
			wg.Wait()
			got := events(t, w.Body.Bytes(), jsonType)
			if len(got) > 1 {
				t.Errorf("events %q; want no error", got)
			}
		})
	}
}

func TestWatchOverWebSocket(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	a.configMap("a", "")
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	dial := func(accept string) *websocket.Conn {
		config, err := websocket.NewConfig(strings.Replace(server.URL, "http", "ws", 1)+inA+"configmaps?watch=1", "http://elsewhere.example.com")
		if err != nil {
			t.Fatal(err)
		}
		config.Header.Set("Accept", accept)
		conn, err := websocket.DialConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	text, binary := dial(jsonType), dial(protobufType)
	a.configMap("b", "")
	for _, want := range []string{"ADDED ConfigMap a", "ADDED ConfigMap b"} {
		var e event
		if err := websocket.JSON.Receive(text, &e); err != nil || e.String() != want {
			t.Errorf("%s, %v; want %s", e, err, want)
		}
		var message []byte
		if err := websocket.Message.Receive(binary, &message); err != nil {
			t.Fatal(err)
		}
		// WebSocket messages have no length prefix.
		kind, obj := readFrame(t, message)
		if got := kind + " ConfigMap " + obj.(*corev1.ConfigMap).Name; got != want {
			t.Errorf("%q; want %s", got, want)
		}
	}
}
