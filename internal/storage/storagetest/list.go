package storagetest

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
)

func listTests() []test {
	return []test{
		{"Scopes", testListScopes},
		{"Namespaces", testListNamespaces},
		{"Selectors", testListSelectors},
		{"Paging", testPaging},
		{"PagingIsConsistent", testPagingIsConsistent},
		{"PagingWithSelector", testPagingWithSelector},
		{"ResourceVersions", testListResourceVersions},
		{"BadOptions", testListBadOptions},
		{"Expired", testListExpired},
		{"Long", testLongList},
		{"ReadYourDeletes", testReadYourDeletes},
		{"ListWhileWriting", testListWhileWriting},
	}
}

func testListScopes(e *env) {
	for _, name := range []string{"foo/b", "foo/a", "foobar/c", "fo/d"} {
		ns, n, _ := strings.Cut(name, "/")
		e.create(Pod(ns, n))
	}
	neighbour := e.open(storage.Config{ResourcePrefix: "podsandmore"})
	if _, err := neighbour.Create(e.ctx, Pod("foo", "z"), storage.WriteOptions{}); err != nil {
		e.Fatal(err)
	}
	for _, c := range []struct{ namespace, want string }{
		{"", "d a b c"}, {"foo", "a b"}, {"foobar", "c"}, {"fo", "d"}, {"f", ""}, {"none", ""},
	} {
		list, got := e.list(c.namespace, rest.ListOptions{})
		if got != c.want {
			e.Errorf("list of %q: %q, want %q", c.namespace, got, c.want)
		}
		if list.Revision == 0 || list.Continue != "" || list.Remaining != nil {
			e.Errorf("list of %q: %+v", c.namespace, list)
		}
	}
	if n, err := e.Count(e.ctx); n != 4 || err != nil {
		e.Errorf("count %d, %v, want 4", n, err)
	}
}

// testListNamespaces checks that a list of some namespaces has the order of a list of all namespaces.
func testListNamespaces(e *env) {
	for _, name := range []string{"a/1", "a/2", "a-b/3", "b/4", "c/5", "c/6"} {
		ns, n, _ := strings.Cut(name, "/")
		e.create(Pod(ns, n, "x="+n))
	}
	for _, c := range []struct {
		namespaces           []string
		labels, fields, want string
	}{
		{nil, "", "", ""},
		{[]string{"none", "z"}, "", "", ""},
		{[]string{"b"}, "", "", "4"},
		{[]string{"c", "a", "a-b", "none"}, "", "", "3 1 2 5 6"},
		{[]string{"c", "a"}, "x in (2,3,6)", "", "2 6"},
		{[]string{"c", "a"}, "", "metadata.namespace=c", "5 6"},
		{[]string{"c", "a"}, "", "metadata.namespace=b", ""},
	} {
		options := rest.ListOptions{Namespaces: request.NewNamespaces(c.namespaces), Fields: fields.ParseSelectorOrDie(c.fields)}
		if c.labels != "" {
			options.Labels = selector(e, c.labels)
		}
		first, got := e.list("", options)
		if got != c.want || first.Revision == 0 {
			e.Errorf("list of %v: %q at %d, want %q", c.namespaces, got, first.Revision, c.want)
		}
		var pages []string
		for options.Limit = 2; ; {
			page, got := e.list("", options)
			pages = append(pages, strings.Fields(got)...)
			if page.Remaining != nil && (c.labels+c.fields != "" || len(pages)+int(*page.Remaining) != len(strings.Fields(c.want))) {
				e.Errorf("pages of %v: %d remain after %v", c.namespaces, *page.Remaining, pages)
			}
			if options.Continue = page.Continue; page.Continue == "" {
				break
			}
		}
		if got := strings.Join(pages, " "); got != c.want {
			e.Errorf("pages of %v: %q, want %q", c.namespaces, got, c.want)
		}
	}
}

func testListSelectors(e *env) {
	for i, name := range []string{"a", "b", "c", "d"} {
		pod := Pod("ns", name, fmt.Sprintf("x=%d", i%2))
		pod.Spec.NodeName = fmt.Sprintf("node%d", i/2)
		e.create(pod)
	}
	e.create(Pod("other", "a", "x=0"))
	for _, c := range []struct{ namespace, labels, fields, want string }{
		{"ns", "x=0", "", "a c"},
		{"", "x=0", "", "a c a"},
		{"ns", "x=0", "spec.nodeName=node1", "c"},
		{"ns", "", "metadata.name=b", "b"},
		{"", "", "metadata.name=a", "a a"},
		{"", "", "metadata.namespace=other", "a"},
		{"ns", "", "metadata.namespace=other", ""},
		{"", "", "metadata.namespace=ns,metadata.name=d", "d"},
		{"ns", "", "metadata.name!=b", "a c d"},
		{"ns", "", "metadata.name=a/b", ""},
		{"ns", "!x", "", ""},
	} {
		options := rest.ListOptions{Fields: fields.ParseSelectorOrDie(c.fields)}
		if c.labels != "" {
			options.Labels = selector(e, c.labels)
		}
		if _, got := e.list(c.namespace, options); got != c.want {
			e.Errorf("list %q labels %q fields %q: %q, want %q", c.namespace, c.labels, c.fields, got, c.want)
		}
	}
}

// fill creates pods p000, p001, ... in namespace ns.
func (e *env) fill(n int) {
	e.Helper()
	for i := range n {
		e.create(Pod("ns", fmt.Sprintf("p%03d", i), fmt.Sprintf("x=%d", i%3)))
	}
}

func testPaging(e *env) {
	e.fill(10)
	e.create(Pod("ns2", "z"))
	for _, limit := range []int64{1, 3, 5, 9, 10, 11} {
		options := rest.ListOptions{Limit: limit}
		var got []string
		for page := 0; ; page++ {
			list, names := e.list("ns", options)
			if names != "" {
				got = append(got, strings.Fields(names)...)
			}
			if list.Continue == "" {
				if list.Remaining != nil {
					e.Errorf("limit %d: the last page has %d remaining items", limit, *list.Remaining)
				}
				break
			}
			if want := int64(10 - len(got)); list.Remaining == nil || *list.Remaining != want {
				e.Errorf("limit %d page %d: remaining %v, want %d", limit, page, list.Remaining, want)
			}
			options.Continue = list.Continue
		}
		if len(got) != 10 {
			e.Errorf("limit %d: %q", limit, got)
		}
	}
}

func testPagingIsConsistent(e *env) {
	e.fill(6)
	first, names := e.list("ns", rest.ListOptions{Limit: 2})
	if names != "p000 p001" {
		e.Fatal(names)
	}
	e.create(Pod("ns", "p0015"))
	e.remove(key("ns", "p003"))
	e.change(key("ns", "p004"), label("x", "new"))
	second, err := e.List(e.ctx, "ns", rest.ListOptions{Limit: 2, Continue: first.Continue})
	if err != nil {
		e.Fatal(err)
	}
	if got := e.names(second); got != "p002 p003" || second.Revision != first.Revision {
		e.Errorf("second page %q at %d, want p002 p003 at %d", got, second.Revision, first.Revision)
	}
	third, err := e.List(e.ctx, "ns", rest.ListOptions{Limit: 2, Continue: second.Continue})
	if err != nil {
		e.Fatal(err)
	}
	for record, err := range third.Items {
		if err != nil {
			e.Fatal(err)
		}
		if x := e.pod(record).Labels["x"]; x == "new" {
			e.Error("the third page shows a later change")
		}
	}
	// resourceVersion=0 with a token returns all remaining objects, regardless of the limit.
	if _, got := e.list("ns", rest.ListOptions{Limit: 2, Continue: first.Continue, ResourceVersion: "0"}); got != "p002 p003 p004 p005" {
		e.Errorf("continue with resourceVersion 0: %q", got)
	}
}

func testPagingWithSelector(e *env) {
	e.fill(10)
	options := rest.ListOptions{Limit: 2, Labels: selector(e, "x=0")}
	var got []string
	for {
		list, names := e.list("ns", options)
		got = append(got, names)
		if list.Remaining != nil {
			e.Errorf("remaining is %d with a selector", *list.Remaining)
		}
		if options.Continue = list.Continue; options.Continue == "" {
			break
		}
	}
	if want := "p000 p003|p006 p009"; strings.Join(got, "|") != want {
		e.Errorf("pages %q, want %q", got, want)
	}
}

func testListResourceVersions(e *env) {
	e.create(Pod("ns", "a"))
	b := e.create(Pod("ns", "b"))
	at := rv(b.Revision())
	c := e.create(Pod("ns", "c"))
	const all, old = "a b c", "a b"
	for _, test := range []struct {
		options rest.ListOptions
		want    string
		exact   int64
	}{
		{rest.ListOptions{}, all, 0},
		{rest.ListOptions{ResourceVersion: at}, all, 0},
		{rest.ListOptions{ResourceVersion: rv(c.Revision())}, all, 0},
		{rest.ListOptions{ResourceVersion: rv(c.Revision()), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}, all, 0},
		{rest.ListOptions{ResourceVersion: at, ResourceVersionMatch: metav1.ResourceVersionMatchExact}, old, b.Revision()},
		{rest.ListOptions{ResourceVersion: at, Limit: 10}, old, b.Revision()},
		{rest.ListOptions{ResourceVersion: at, Limit: 1}, "a", b.Revision()},
		{rest.ListOptions{ResourceVersion: at, Limit: 10, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}, all, 0},
		{rest.ListOptions{ResourceVersion: rv(c.Revision()), ResourceVersionMatch: metav1.ResourceVersionMatchExact}, all, c.Revision()},
	} {
		list, got := e.list("ns", test.options)
		if got != test.want {
			e.Errorf("%+v: %q, want %q", test.options, got, test.want)
		}
		if test.exact != 0 && list.Revision != test.exact || list.Revision < b.Revision() {
			e.Errorf("%+v: at revision %d", test.options, list.Revision)
		}
	}
	// "0" accepts any state and returns all objects.
	list, _ := e.list("ns", rest.ListOptions{ResourceVersion: "0", Limit: 1})
	if list.Continue != "" {
		e.Error("resourceVersion 0 was paged")
	}
	for _, match := range []metav1.ResourceVersionMatch{"", metav1.ResourceVersionMatchExact, metav1.ResourceVersionMatchNotOlderThan} {
		_, err := e.List(e.ctx, "ns", rest.ListOptions{ResourceVersion: rv(c.Revision() + 1000), ResourceVersionMatch: match})
		var future *storage.FutureRevisionError
		if !errors.As(err, &future) || future.Requested != c.Revision()+1000 || future.Current < c.Revision() {
			e.Errorf("match %q in the future: %v", match, err)
		}
	}
}

func testListBadOptions(e *env) {
	e.fill(3)
	page, _ := e.list("ns", rest.ListOptions{Limit: 1})
	for _, c := range []struct {
		options rest.ListOptions
		want    string
	}{
		{rest.ListOptions{Continue: "nonsense"}, `invalid continue token: continue key is not valid: invalid character '\u009e' looking for beginning of value`},
		{rest.ListOptions{Continue: "e30"}, `invalid continue token: continue key is not valid: server does not recognize this encoded version `},
		{rest.ListOptions{Continue: "x", Limit: 1, ResourceVersion: "1"}, `invalid continue token: continue key is not valid: illegal base64 data at input byte 0`},
		{rest.ListOptions{Continue: page.Continue, Limit: 3, ResourceVersion: "5"}, `specifying resource version is not allowed when using continue`},
		{rest.ListOptions{ResourceVersion: "abc"}, `invalid resource version: resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax`},
		{rest.ListOptions{ResourceVersion: "-1"}, `invalid resource version: resourceVersion: Invalid value: "-1": strconv.ParseUint: parsing "-1": invalid syntax`},
	} {
		var invalid *storage.InvalidOptionError
		if _, err := e.List(e.ctx, "ns", c.options); !errors.As(err, &invalid) || err.Error() != c.want {
			e.Errorf("%+v:\n got %v\nwant %s", c.options, err, c.want)
		}
	}
	// A token from another list is valid, but may skip objects.
	for name, want := range map[string]string{"p000": "", "p001": "p001", "p002": "p002"} {
		options := rest.ListOptions{Continue: page.Continue, Fields: fields.OneTermEqualSelector("metadata.name", name)}
		if _, got := e.list("ns", options); got != want {
			e.Errorf("continued for %s: %q, want %q", name, got, want)
		}
	}
	// A negative limit is ignored.
	if list, got := e.list("ns", rest.ListOptions{Limit: -1}); got != "p000 p001 p002" || list.Continue != "" {
		e.Errorf("limit -1: %q", got)
	}
}

func testListExpired(e *env) {
	e.fill(4)
	page, _ := e.list("ns", rest.ListOptions{Limit: 2})
	e.change(key("ns", "p003"), label("x", "new"))
	e.create(Pod("ns", "p9"))
	e.compact()
	const tooOld = "The resourceVersion for the provided list is too old."
	at := rv(page.Revision)
	for _, options := range []rest.ListOptions{
		{ResourceVersion: at, ResourceVersionMatch: metav1.ResourceVersionMatchExact},
		{ResourceVersion: at, Limit: 2},
	} {
		_, err := e.List(e.ctx, "ns", options)
		// A cache may still hold the revision.
		if err != nil && (!errors.Is(err, storage.ErrExpired) || err.Error() != tooOld) {
			e.Errorf("%+v: %v, want %s", options, err, tooOld)
		}
	}
	list, err := e.List(e.ctx, "ns", rest.ListOptions{Limit: 1, Continue: page.Continue})
	if err == nil {
		if got := e.names(list); got != "p002" || list.Revision != page.Revision {
			e.Errorf("continued: %q at %d", got, list.Revision)
		}
		return
	}
	var expired *storage.ExpiredError
	if !errors.As(err, &expired) || expired.Continue == "" || !strings.HasPrefix(expired.Message, "The provided continue parameter is too old") {
		e.Fatalf("continue after compaction: %v", err)
	}
	inconsistent, got := e.list("ns", rest.ListOptions{Continue: expired.Continue})
	if got != "p002 p003 p9" || inconsistent.Revision <= page.Revision {
		e.Errorf("inconsistent continuation: %q at %d", got, inconsistent.Revision)
	}
}

// compact deletes all history.
func (e *env) compact() {
	e.Helper()
	current, err := e.backend.CurrentRevision(e.ctx)
	if err == nil {
		err = e.backend.Compact(e.ctx, current)
	}
	if err != nil {
		e.Fatal(err)
	}
}

func testLongList(e *env) {
	e.fill(350)
	list, names := e.list("", rest.ListOptions{})
	if n := len(strings.Fields(names)); n != 350 || list.Continue != "" {
		e.Errorf("%d items, want 350", n)
	}
	list, names = e.list("", rest.ListOptions{Limit: 300})
	if n := len(strings.Fields(names)); n != 300 || list.Continue == "" || *list.Remaining != 50 {
		e.Errorf("%d items, %+v, want 300 and 50 remaining", n, list)
	}
}

func testReadYourDeletes(e *env) {
	for range 20 {
		e.create(Pod("ns", "a"))
		if _, got := e.list("ns", rest.ListOptions{}); got != "a" {
			e.Fatalf("list after create: %q", got)
		}
		e.remove(key("ns", "a"))
		if _, got := e.list("ns", rest.ListOptions{}); got != "" {
			e.Fatalf("list after delete: %q", got)
		}
		if _, err := e.Get(e.ctx, key("ns", "a"), storage.ReadOptions{}); !errors.Is(err, storage.ErrNotFound) {
			e.Fatalf("get after delete: %v", err)
		}
	}
}

// testListWhileWriting checks that writes during the iteration do not change a list.
func testListWhileWriting(e *env) {
	e.fill(250)
	list, err := e.List(e.ctx, "ns", rest.ListOptions{})
	if err != nil {
		e.Fatal(err)
	}
	n := 0
	for record, err := range list.Items {
		if err != nil {
			e.Fatal(err)
		}
		if n == 0 {
			e.change(key("ns", "p249"), func(pod *corev1.Pod) { pod.Labels["x"] = "late" })
			e.remove(key("ns", "p248"))
			e.create(Pod("ns", "q"))
		}
		if record.Revision() > list.Revision {
			e.Errorf("%s at %d in a list at %d", record.Name(), record.Revision(), list.Revision)
		}
		n++
	}
	if n != 250 {
		e.Errorf("%d items, want 250", n)
	}
}
