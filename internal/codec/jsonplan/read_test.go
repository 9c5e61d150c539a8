//go:build !nojsonplan

package jsonplan_test

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"mainstay.dev/mainstay/internal/codec/codectest"
	"mainstay.dev/mainstay/internal/codec/jsonplan"
)

// checkRead compares the decoded object with that of sigs.k8s.io/json. It reports whether jsonplan could
// decode the body.
func checkRead(t *testing.T, kind reflect.Type, body []byte) bool {
	t.Helper()
	given := string(body)
	got := reflect.New(kind).Interface()
	ok := jsonplan.Decode(body, got, nil)
	if string(body) != given {
		t.Fatal("the body was changed")
	}
	if ok {
		want := reflect.New(kind).Interface()
		strict, err := kjson.UnmarshalStrict(body, want)
		if err != nil || len(strict) > 0 {
			t.Fatalf("%s: was read; want %v, %v\n%s", kind, err, strict, body)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%s of %s\n%s", kind, body, cmp.Diff(want, got))
		}
	}
	document, isDocument := jsonplan.DecodeDocument(body)
	if isDocument {
		var want map[string]any
		strict, err := kjson.UnmarshalStrict(body, &want)
		if err != nil || len(strict) > 0 || !reflect.DeepEqual(document, want) {
			t.Fatalf("document %s: %v, %v\n%s", body, err, strict, cmp.Diff(want, document))
		}
	}
	return ok
}

func TestDecodeEqualsStrictJSON(t *testing.T) {
	t.Parallel()
	for i, kind := range kinds() {
		read := 0
		for seed := range 5 {
			filled := reflect.New(kind)
			codectest.Fill(rand.New(rand.NewPCG(uint64(i), uint64(seed))), filled.Elem())
			body, err := json.Marshal(filled.Interface())
			if err != nil {
				continue // some random values have no JSON encoding
			}
			if checkRead(t, kind, body) {
				read++
			}
			// Test the same document with sorted keys and white space.
			var document any
			if err := json.Unmarshal(body, &document); err != nil {
				t.Fatal(err)
			}
			if body, err = json.MarshalIndent(document, " ", "\t"); err != nil {
				t.Fatal(err)
			}
			checkRead(t, kind, body)
		}
		if read == 0 && !strings.HasSuffix(kind.Name(), "List") && kind.Name() != "WatchEvent" && kind.Name() != "InternalEvent" {
			t.Errorf("no %s was read", kind)
		}
	}
}

func TestDecodeOfMutations(t *testing.T) {
	t.Parallel()
	pod, err := json.Marshal(codectest.Pods()[0])
	if err != nil {
		t.Fatal(err)
	}
	if !checkRead(t, reflect.TypeFor[corev1.Pod](), pod) {
		t.Fatal("a plain pod was not read")
	}
	random := rand.New(rand.NewPCG(1, 2))
	bytes := []byte("{}[]\",:\\ntfu0-1.eE \n\x00\x1f\x80\xff<aA")
	for range few(5000) {
		body := append([]byte(nil), pod...)
		for range 1 + random.IntN(3) {
			at := random.IntN(len(body))
			switch random.IntN(3) {
			case 0:
				body[at] = bytes[random.IntN(len(bytes))]
			case 1:
				body = append(body[:at], body[at+1:]...)
			default:
				from := random.IntN(len(body))
				body = append(body[:at:at], body[from:min(len(body), from+random.IntN(40))]...)
				body = append(body, pod[min(at, len(pod)):]...)
			}
		}
		checkRead(t, reflect.TypeFor[corev1.Pod](), body)
	}
}

func TestDecodeOfIrregularities(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]bool{
		`{}`: true, ` { } `: true, `null`: false, `[]`: false, ``: false, `{`: false, `{}x`: false, `{} {}`: false,
		`{"metadata":null,"data":null,"immutable":null}`: true,
		`{"data":{}}`:                                                    true,
		`{"data":{"a":null}}`:                                            true,
		`{"data":{"a":"1","a":"2"}}`:                                     false,
		`{"data":{"a":"1"},"data":{}}`:                                   false,
		`{"Data":{}}`:                                                    false,
		`{"nope":1}`:                                                     false,
		`{"data":{"a":1}}`:                                               false,
		`{"immutable":1}`:                                                false,
		`{"immutable":true}`:                                             true,
		`{"immutable":tru}`:                                              false,
		`{"binaryData":{"a":"AAEC","b":"","c":null}}`:                    true,
		`{"binaryData":{"a":"AAE"}}`:                                     false,
		`{"data":{"a":"\u00e9\n\"\\\/\b\f\r\t\u2028"}}`:                  true,
		`{"data":{"a":"\ud83d\ude00\uD83D\uDE00"}}`:                      true,
		`{"data":{"a":"\ud83d"}}`:                                        false,
		`{"data":{"a":"\ud83d\u0041"}}`:                                  false,
		`{"data":{"a":"\ude00\ud83d"}}`:                                  false,
		`{"data":{"a":"😀é"}}`:                                            true,
		"{\"data\":{\"a\":\"\xff\"}}":                                    false,
		"{\"data\":{\"a\":\"\n\"}}":                                      false,
		`{"data":{"a":"\x"}}`:                                            false,
		`{"data":{"a":"\u12"}}`:                                          false,
		`{"metadata":{"generation":-12}}`:                                true,
		`{"metadata":{"generation":01}}`:                                 false,
		`{"metadata":{"generation":1.0}}`:                                false,
		`{"metadata":{"generation":-}}`:                                  false,
		`{"metadata":{"creationTimestamp":"2026-01-02T03:04:05Z"}}`:      true,
		`{"metadata":{"creationTimestamp":"2026-01-02T03:04:05+02:00"}}`: true,
		`{"metadata":{"creationTimestamp":"yesterday"}}`:                 false,
		`{"metadata":{"creationTimestamp":null}}`:                        true,
		`{"metadata":{"finalizers":[]}}`:                                 true,
		`{"metadata":{"finalizers":["a",null]}}`:                         true,
		`{"metadata":{"finalizers":["a",]}}`:                             false,
		`{"metadata":{"finalizers":[,]}}`:                                false,
		`{"metadata":{"managedFields":[{"fieldsV1":{"a":[1,2.5e-3,true,null,"x"]}}]}}`: true,
		`{"metadata":{"managedFields":[{"fieldsV1":null},null]}}`:                      true,
		`{"metadata":{"ownerReferences":[{"controller":null}]}}`:                       true,
	} {
		if got := checkRead(t, reflect.TypeFor[corev1.ConfigMap](), []byte(body)); got != want {
			t.Errorf("%s: read %v; want %v", body, got, want)
		}
	}
	deep := strings.Repeat(`{"a":`, 2000) + "1" + strings.Repeat("}", 2000)
	if checkRead(t, reflect.TypeFor[corev1.ConfigMap](), []byte(deep)) {
		t.Error("a document beyond the maximum depth was decoded")
	}
}

// FuzzDecode compares decoded objects with those of sigs.k8s.io/json.
func FuzzDecode(f *testing.F) {
	all := kinds()
	f.Add([]byte(`{"metadata":{"name":"a","labels":{"a":"b"}},"spec":{"containers":[{"resources":{"limits":{"cpu":1,"m":"1Gi"}}}]}}`), 0)
	f.Add([]byte(`{"spec":{"ports":[{"targetPort":"x"},{"targetPort":8}]}}`), 5)
	for i, pod := range codectest.Pods() {
		body, err := json.Marshal(pod)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body, i)
	}
	f.Fuzz(func(t *testing.T, body []byte, kind int) {
		checkRead(t, all[uint(kind)%uint(len(all))], body)
		checkRead(t, reflect.TypeFor[corev1.Pod](), body)
	})
}

// BenchmarkDecode decodes pods in the format that Go clients send.
func BenchmarkDecode(b *testing.B) {
	for _, pod := range codectest.Pods() {
		body, err := json.Marshal(pod)
		if err != nil {
			b.Fatal(err)
		}
		name := strings.TrimPrefix(pod.Name, "orders-7d9c5b6f4-")
		b.Run(name+"/strictjson", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if strict, err := kjson.UnmarshalStrict(body, new(corev1.Pod)); err != nil || len(strict) > 0 {
					b.Fatal(err, strict)
				}
			}
		})
		b.Run(name+"/plan", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !jsonplan.Decode(body, new(corev1.Pod), nil) {
					b.Fatal("not read")
				}
			}
		})
	}
}
