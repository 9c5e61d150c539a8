package endpoints

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
)

func TestWithoutManagedFields(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{}`:                                  `{}`,
		` {"a":1} `:                           ` {"a":1} `,
		`[1]`:                                 `[1]`,
		`{"metadata"`:                         `{"metadata"`,
		`{"metadata":null,"managedFields":1}`: `{"metadata":null,"managedFields":1}`,
		`{"metadata":{"managedFields":[{"a":"}"}]}}`:                                                         `{"metadata":{}}`,
		`{"metadata":{"name":"x" , "managedFields":[] },"b":2}`:                                              `{"metadata":{"name":"x" },"b":2}`,
		`{"metadata":{ "managedFields" : [{}] , "name":"x"}}`:                                                `{"metadata":{ "name":"x"}}`,
		`{"metadata":{"a":1,"managed\u0046ields":[],"b":2,"managedFields":null}}`:                            `{"metadata":{"a":1,"b":2}}`,
		`{"metadata":{"a":1,"managedFields":[],"managedFields":[]}}`:                                         `{"metadata":{"a":1}}`,
		`{"metadata":{"managedFields":[],"managedFields":[]}}`:                                               `{"metadata":{}}`,
		`{"spec":{"metadata":{"managedFields":1}}}`:                                                          `{"spec":{"metadata":{"managedFields":1}}}`,
		`{"metadata":{},"items":[{"metadata":{"managedFields":[1]}},{"metadata":{"managedFields":[1]}}, 3]}`: `{"metadata":{},"items":[{"metadata":{}},{"metadata":{}}, 3]}`,
		`{"rows":[{"object":{"metadata":{"managedFields":[1]}},"cells":[]},{"object":null},1]}`:              `{"rows":[{"object":{"metadata":{}},"cells":[]},{"object":null},1]}`,
	} {
		if got := string(withoutManagedFields([]byte(text))); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// TestAuditRequest checks that JSON is recorded as sent, whatever its media type is, and YAML as JSON.
func TestAuditRequest(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		media      codec.Media
		body, want string
	}{
		{codec.JSON, `{ "a": 1 }`, `{ "a": 1 }`},
		{codec.YAML, `{ "a": 1 }`, `{ "a": 1 }`},
		{codec.YAML, "a: 1\n", `{"a":1}`},
		{codec.YAML, "{a: 1}", `{"a":1}`},
	} {
		ctx := request.NewContext(t.Context(), &request.Info{}, time.Now())
		request.SetAudit(ctx, &request.Audit{RequestBody: true})
		c := &call{r: httptest.NewRequestWithContext(ctx, http.MethodPatch, "/", nil)}
		c.auditRequest(nil, test.media, []byte(test.body))
		if got := string(request.AuditFrom(ctx).Recorded().RequestBody); got != test.want {
			t.Errorf("%s: recorded %s, want %s", test.body, got, test.want)
		}
	}
}

// FuzzWithoutManagedFields checks that withoutManagedFields has the same result as decoding the text and
// deleting the managed fields.
func FuzzWithoutManagedFields(f *testing.F) {
	f.Add([]byte(`{"metadata":{"a":1,"managedFields":[],"b":2,"managedFields":null},"items":[{"metadata":{"managedFields":1}}]}`))
	f.Add([]byte(`{"rows":[{"object":{"metadata":{"managedFields":[1]}}}],"metadata":{"managedFields":"\"}"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got := withoutManagedFields(text)
		var before, after any
		if json.Unmarshal(text, &before) != nil {
			return
		}
		if err := json.Unmarshal(got, &after); err != nil {
			t.Fatalf("decode the result %s: %v", got, err)
		}
		if hasTwice(before, text) {
			return // of duplicate members, decoding keeps only the last one, but the function removes fields from all
		}
		drop(before)
		if !reflect.DeepEqual(before, after) {
			t.Errorf("%s, want %s", after, before)
		}
	})
}

// hasTwice reports whether a document has duplicate members, so that its text contains more strings than
// the decoded value.
func hasTwice(value any, text []byte) bool {
	decoder, names := json.NewDecoder(bytes.NewReader(text)), 0
	for token, err := decoder.Token(); err == nil; token, err = decoder.Token() {
		if _, ok := token.(string); ok {
			names++
		}
	}
	return names != textsIn(value)
}

// textsIn returns the number of strings in a value, including the names of members.
func textsIn(value any) (n int) {
	switch value := value.(type) {
	case string:
		n = 1
	case []any:
		for _, element := range value {
			n += textsIn(element)
		}
	case map[string]any:
		for _, member := range value {
			n += 1 + textsIn(member)
		}
	}
	return n
}

func drop(value any) {
	document, _ := value.(map[string]any)
	forget := func(value any) {
		if object, ok := value.(map[string]any); ok {
			if metadata, ok := object["metadata"].(map[string]any); ok {
				delete(metadata, "managedFields")
			}
		}
	}
	forget(document)
	items, _ := document["items"].([]any)
	for _, item := range items {
		forget(item)
	}
	rows, _ := document["rows"].([]any)
	for _, row := range rows {
		if row, ok := row.(map[string]any); ok {
			forget(row["object"])
		}
	}
}
