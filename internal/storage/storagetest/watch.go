package storagetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/kv"
)

func watchTests() []test {
	return []test{
		{"FromRevision", testWatchFromRevision},
		{"CurrentStateFirst", testWatchCurrentState},
		{"Scopes", testWatchScopes},
		{"SelectorTransitions", testSelectorTransitions},
		{"FieldSelector", testWatchFieldSelector},
		{"InitialEvents", testInitialEvents},
		{"InitialEventsOff", testInitialEventsOff},
		{"ManyInitialEvents", testManyInitialEvents},
		{"Future", testWatchFuture},
		{"BadRevision", testWatchBadRevision},
		{"Expired", testWatchExpired},
		{"Slow", testSlowWatch},
		{"Ends", testWatchEnds},
		{"AcrossReopen", testWatchAcrossReopen},
		{"Recreate", testWatchRecreate},
		{"LastBookmark", testLastBookmark},
	}
}

// fromNow returns the options of a watch from the newest revision.
func fromNow(e *env) rest.ListOptions {
	e.Helper()
	current, err := e.backend.CurrentRevision(e.ctx)
	if err != nil {
		e.Fatal(err)
	}
	if current == 0 {
		// Version "0" means any revision, so create a revision to start from.
		if _, err := e.backend.Commit(e.ctx, kv.Op{Key: "/first", Expect: kv.AnyRevision, Value: []byte("x")}); err != nil {
			e.Fatal(err)
		}
		return fromNow(e)
	}
	return rest.ListOptions{ResourceVersion: rv(int64(current))}
}

// catchUp makes a cache apply all writes, so that resourceVersion "0" returns the newest state.
func (e *env) catchUp() {
	e.Helper()
	e.list("", rest.ListOptions{})
}

// history changes the pods a and b and returns the events that a watch must receive.
func history(e *env) []string {
	created := e.create(Pod("ns", "a", "x=1"))
	changed := e.change(key("ns", "a"), label("x", "2"))
	other := e.create(Pod("ns", "b"))
	gone := e.remove(key("ns", "a"))
	return []string{
		event("ADDED", "a", created.Revision(), "1"),
		event("MODIFIED", "a", changed.Revision(), "2"),
		event("ADDED", "b", other.Revision(), ""),
		event("DELETED", "a", gone.Revision(), "2"),
	}
}

func testWatchFromRevision(e *env) {
	options := fromNow(e)
	live := e.watch("ns", options)
	want := history(e)
	e.expect(live, want...)
	e.expect(e.watch("ns", options), want...)
	e.expect(e.watch("", options), want...)
}

func testWatchCurrentState(e *env) {
	a := e.create(Pod("ns", "a", "x=1"))
	for _, version := range []string{"", "0"} {
		e.catchUp()
		w := e.watch("ns", rest.ListOptions{ResourceVersion: version, AllowBookmarks: true})
		e.expect(w, event("ADDED", "a", a.Revision(), "1"))
		next := e.create(Pod("ns", "b"+version))
		e.expect(w, event("ADDED", "b"+version, next.Revision(), ""))
		e.remove(key("ns", "b"+version))
	}
}

func testWatchScopes(e *env) {
	options := fromNow(e)
	foo, all := e.watch("foo", options), e.watch("", options)
	bar := e.create(Pod("foobar", "a"))
	mine := e.create(Pod("foo", "b"))
	e.expect(foo, event("ADDED", "b", mine.Revision(), ""))
	e.expect(all, event("ADDED", "a", bar.Revision(), ""), event("ADDED", "b", mine.Revision(), ""))
}

func testSelectorTransitions(e *env) {
	options := fromNow(e)
	options.Labels = selector(e, "x=in")
	w := e.watch("ns", options)
	e.create(Pod("ns", "a", "x=out"))
	in := e.change(key("ns", "a"), label("x", "in"))
	changed := e.change(key("ns", "a"), label("y", "1"))
	out := e.change(key("ns", "a"), label("x", "out"))
	e.change(key("ns", "a"), label("y", "2"))
	back := e.change(key("ns", "a"), label("x", "in"))
	gone := e.remove(key("ns", "a"))
	want := []string{
		event("ADDED", "a", in.Revision(), "in"),
		event("MODIFIED", "a", changed.Revision(), "in"),
		event("DELETED", "a", out.Revision(), "in"), // the last state that matched
		event("ADDED", "a", back.Revision(), "in"),
		event("DELETED", "a", gone.Revision(), "in"),
	}
	e.expect(w, want...)
	e.expect(e.watch("ns", options), want...)
}

func testWatchFieldSelector(e *env) {
	options := fromNow(e)
	node, name := options, options
	node.Fields = fields.ParseSelectorOrDie("spec.nodeName=n1")
	name.Fields = fields.ParseSelectorOrDie("metadata.name=b")
	onNode, named, everywhere := e.watch("", node), e.watch("ns", name), e.watch("", name)
	e.create(Pod("ns", "a"))
	bound := e.change(key("ns", "a"), func(pod *corev1.Pod) { pod.Spec.NodeName = "n1" })
	b := e.create(Pod("ns", "b"))
	moved := e.change(key("ns", "a"), func(pod *corev1.Pod) { pod.Spec.NodeName = "n2" })
	again := e.change(key("ns", "b"), func(pod *corev1.Pod) { pod.Spec.NodeName = "n1" })
	e.expect(onNode,
		event("ADDED", "a", bound.Revision(), ""),
		event("DELETED", "a", moved.Revision(), ""),
		event("ADDED", "b", again.Revision(), ""))
	for _, w := range []rest.Watch{named, everywhere} {
		e.expect(w, event("ADDED", "b", b.Revision(), ""), event("MODIFIED", "b", again.Revision(), ""))
	}
}

func testInitialEvents(e *env) {
	yes := true
	a := e.create(Pod("ns", "a", "x=1"))
	b := e.create(Pod("ns", "b", "x=2"))
	for _, version := range []string{"", "0", rv(a.Revision())} {
		e.catchUp()
		options := rest.ListOptions{ResourceVersion: version, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, SendInitialEvents: &yes}
		quiet := e.watch("ns", options)
		options.AllowBookmarks = true
		w := e.watch("ns", options)
		options.Labels = selector(e, "x=2")
		some := e.watch("ns", options)
		options.Labels = selector(e, "x=none")
		none := e.watch("ns", options)
		current := fromNow(e).ResourceVersion
		e.expect(w, event("ADDED", "a", a.Revision(), "1"), event("ADDED", "b", b.Revision(), "2"), "BOOKMARK end "+current)
		e.expect(some, event("ADDED", "b", b.Revision(), "2"), "BOOKMARK end "+current)
		e.expect(none, "BOOKMARK end "+current)
		c := e.create(Pod("ns", "c"))
		e.expect(w, event("ADDED", "c", c.Revision(), ""))
		e.expect(quiet, event("ADDED", "a", a.Revision(), "1"), event("ADDED", "b", b.Revision(), "2"), event("ADDED", "c", c.Revision(), ""))
		e.remove(key("ns", "c"))
	}
}

func testInitialEventsOff(e *env) {
	no := false
	a := e.create(Pod("ns", "a"))
	now := e.watch("ns", rest.ListOptions{SendInitialEvents: &no, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
	b := e.create(Pod("ns", "b"))
	since := e.watch("ns", rest.ListOptions{SendInitialEvents: &no, ResourceVersion: rv(a.Revision()), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
	e.expect(now, event("ADDED", "b", b.Revision(), ""))
	e.expect(since, event("ADDED", "b", b.Revision(), ""))
}

func testManyInitialEvents(e *env) {
	e.fill(250)
	w := e.watch("", rest.ListOptions{})
	late := e.change(key("ns", "p249"), label("x", "late"))
	seen := 0
	for {
		events, err := w.Next(e.ctx)
		if err != nil {
			e.Fatal(err)
		}
		for _, ev := range events {
			if seen++; seen <= 250 {
				if ev.Type != "ADDED" || ev.Record.Revision() >= late.Revision() {
					e.Fatalf("initial event %d: %s", seen, e.describe(ev))
				}
				continue
			}
			if got, want := e.describe(ev), event("MODIFIED", "p249", late.Revision(), "late"); got != want {
				e.Errorf("got %s, want %s", got, want)
			}
			return
		}
	}
}

func testWatchFuture(e *env) {
	a := e.create(Pod("ns", "a"))
	// A plain watch waits for the requested revision.
	w := e.watch("ns", rest.ListOptions{ResourceVersion: rv(a.Revision() + 1)})
	e.create(Pod("ns", "b"))
	c := e.create(Pod("ns", "c"))
	e.expect(w, event("ADDED", "c", c.Revision(), ""))

	yes := true
	w = e.watch("ns", rest.ListOptions{ResourceVersion: rv(c.Revision() + 1000), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, SendInitialEvents: &yes})
	_, err := w.Next(e.ctx)
	var future *storage.FutureRevisionError
	if !errors.As(err, &future) || future.Requested != c.Revision()+1000 {
		e.Errorf("initial events at a future revision: %v", err)
	}
}

func testWatchBadRevision(e *env) {
	const want = `resourceVersion: Invalid value: "-5": strconv.ParseUint: parsing "-5": invalid syntax`
	if _, err := e.Watch(e.ctx, "ns", rest.ListOptions{ResourceVersion: "-5"}); err == nil || err.Error() != want {
		e.Errorf("got %v, want %s", err, want)
	}
}

func testWatchExpired(e *env) {
	a := e.create(Pod("ns", "a", "x=1"))
	b := e.change(key("ns", "a"), label("x", "2"))
	e.change(key("ns", "a"), label("x", "3"))
	e.compact()
	w := e.watch("ns", rest.ListOptions{ResourceVersion: rv(a.Revision())})
	events, err := w.Next(e.ctx)
	if err == nil {
		// A cache may still hold the events.
		if got, want := e.describe(events[0]), event("MODIFIED", "a", b.Revision(), "2"); got != want {
			e.Errorf("got %s, want %s", got, want)
		}
		return
	}
	if !errors.Is(err, storage.ErrExpired) || !strings.HasPrefix(err.Error(), fmt.Sprintf("too old resource version: %d (", a.Revision())) {
		e.Errorf("got %v, want ErrExpired", err)
	}
}

// testSlowWatch checks that a watch that is not read does not delay writes, and that it misses no event.
func testSlowWatch(e *env) {
	options := fromNow(e)
	slow := e.watch("ns", options)
	e.create(Pod("ns", "a", "x=0"))
	const changes = 500
	for i := 1; i <= changes; i++ {
		e.change(key("ns", "a"), label("x", fmt.Sprint(i)))
	}
	seen := 0
	for seen <= changes {
		events, err := slow.Next(e.ctx)
		if err != nil {
			e.Fatalf("after %d events: %v", seen, err)
		}
		for _, ev := range events {
			if x := e.pod(ev.Record).Labels["x"]; x != fmt.Sprint(seen) {
				e.Fatalf("event %d shows change %s", seen, x)
			}
			seen++
		}
	}
}

func testWatchEnds(e *env) {
	ctx, cancel := context.WithCancel(e.ctx)
	w, err := e.Watch(ctx, "ns", fromNow(e))
	if err != nil {
		e.Fatal(err)
	}
	defer w.Close()
	cancel()
	if _, err := w.Next(ctx); !errors.Is(err, context.Canceled) {
		e.Errorf("next after the end of the context: %v", err)
	}
}

func testWatchAcrossReopen(e *env) {
	options := fromNow(e)
	want := history(e)
	if err := e.backend.Close(); err != nil {
		e.Fatal(err)
	}
	e.backend = e.setup.Backend(e.TB, e.dir)
	again := e.open(storage.Config{})
	w, err := again.Watch(e.ctx, "ns", options)
	if err != nil {
		e.Fatal(err)
	}
	defer w.Close()
	e.expect(w, want...)
	c, err := again.Create(e.ctx, Pod("ns", "c"), storage.WriteOptions{})
	if err != nil {
		e.Fatal(err)
	}
	e.expect(w, event("ADDED", "c", c.Revision(), ""))
}

func testWatchRecreate(e *env) {
	options := fromNow(e)
	w := e.watch("ns", options)
	var want []string
	for i := range 3 {
		x := fmt.Sprint(i)
		want = append(want,
			event("ADDED", "a", e.create(Pod("ns", "a", "x="+x)).Revision(), x),
			event("DELETED", "a", e.remove(key("ns", "a")).Revision(), x))
	}
	e.expect(w, want...)
	e.expect(e.watch("ns", options), want...)
}

// testLastBookmark checks that a watch receives a bookmark at the newest revision before its deadline.
func testLastBookmark(e *env) {
	e.create(Pod("ns", "a"))
	ctx, cancel := context.WithTimeout(e.ctx, 3*time.Second)
	defer cancel()
	options := fromNow(e)
	options.AllowBookmarks = true
	options.Deadline, _ = ctx.Deadline()
	w, err := e.Watch(ctx, "ns", options)
	if err != nil {
		e.Fatal(err)
	}
	defer w.Close()
	elsewhere := e.open(storage.Config{ResourcePrefix: "elsewhere"})
	last, err := elsewhere.Create(e.ctx, Pod("ns", "b"), storage.WriteOptions{})
	if err != nil {
		e.Fatal(err)
	}
	e.expect(w, fmt.Sprintf("BOOKMARK %d", last.Revision()))
}
