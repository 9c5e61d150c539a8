package jsonplan_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"mainstay.dev/mainstay/internal/codec/jsonplan"
)

// rebuild decodes the value at i with a cursor.
func rebuild(c *jsonplan.Cursor, i int) (any, int) {
	switch c.At(i) {
	case '{':
		object := map[string]any{}
		if _, more := c.Enter(i); more {
			c.Leave()
		}
		i, more := c.Enter(i)
		for more {
			name, at := c.Name(i)
			if c.Skip(at) == jsonplan.Invalid {
				return nil, jsonplan.Invalid
			}
			object[name], i = rebuild(c, at)
			i, more = c.Next(i, '}')
		}
		return object, i
	case '[':
		list := []any{}
		i, more := c.Enter(i)
		for more {
			var element any
			element, i = rebuild(c, i)
			list = append(list, element)
			i, more = c.Next(i, ']')
		}
		return list, i
	case '"':
		text, end := c.AppendText(nil, i)
		if same, also := c.Text(i); also != end || end != jsonplan.Invalid && same != string(text) {
			return nil, jsonplan.Invalid
		}
		return string(text), end
	}
	end := c.Skip(i)
	if end == jsonplan.Invalid {
		return nil, end
	}
	var scalar any
	if json.Unmarshal([]byte(c.Raw(i, end)), &scalar) != nil {
		return nil, jsonplan.Invalid
	}
	return scalar, end
}

func TestCursor(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		` {"a" : [1, "b\n\u00e9", {"é": null}, [], {}], "c\\": -1.5e3 , "d":true} `: true,
		`"\ud83d\ude00"`: true, `[]`: true, `{}`: true, `""`: true,
		``: false, `{"a"}`: false, `{"a":}`: false, `[1,]`: false, `[1}`: false, `"`: false, `"\x"`: false, `{"a":1}x`: false,
		"\"\n\"": false, "\"\xff\"": false, `"\ud83d"`: false,
	} {
		checkCursor(t, []byte(text), ok)
	}
}

func checkCursor(t *testing.T, text []byte, ok bool) {
	t.Helper()
	c, i := jsonplan.NewCursor(text)
	got, end := rebuild(c, i)
	if read := c.AtEnd(end); read != ok {
		t.Errorf("%s: read %v; want %v", text, read, ok)
	} else if !read {
		return
	}
	var want any
	if err := json.Unmarshal(text, &want); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s: read %v; want %v, %v", text, got, want, err)
	}
}

// FuzzCursor compares the values read by a cursor with those decoded by encoding/json.
func FuzzCursor(f *testing.F) {
	f.Add([]byte(`{"a":[1,"b\n",{"c":null}],"d":-1.5e3}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, i := jsonplan.NewCursor(text)
		if _, end := rebuild(c, i); c.AtEnd(end) {
			checkCursor(t, text, true)
		}
	})
}
