package quantity

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// maxDepth is the maximum nesting depth that any of the decoders accepts.
const maxDepth = 10_000

// CheckJSON returns ErrOutOfRange if a quantity in a JSON text of the shape's type exceeds the
// limits. It returns nil for invalid JSON, which the decoder reports.
func (s *Shape) CheckJSON(text []byte) error {
	if s == nil || !s.containsQuantity {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	_, err := s.checkNext(d, maxDepth)
	return err
}

// checkNext checks the next value and its content. ok is false for invalid JSON.
func (s *Shape) checkNext(d *json.Decoder, depth int) (ok bool, err error) {
	token, err := d.Token()
	if err != nil || depth == 0 {
		return false, nil
	}
	switch token := token.(type) {
	case string:
		return true, s.checkText(token)
	case json.Number:
		return true, s.checkText(token.String())
	case json.Delim:
		for d.More() {
			sub := s.elements()
			if token == '{' {
				name, err := d.Token()
				if err != nil {
					return false, nil
				}
				sub = s.member(name.(string))
			}
			if ok, err := sub.checkNext(d, depth-1); !ok || err != nil {
				return ok, err
			}
		}
		_, err = d.Token() // the closing bracket
		return err == nil, nil
	}
	return true, nil
}

func (s *Shape) checkText(text string) error {
	if s == nil || !s.isQuantity {
		return nil
	}
	return checkTrimmed(text)
}

// CheckDocument is like CheckJSON, for a decoded JSON document.
func (s *Shape) CheckDocument(value any) error {
	if s == nil {
		return nil
	}
	switch value := value.(type) {
	case string:
		return s.checkText(value)
	case float64:
		return s.checkText(strconv.FormatFloat(value, 'g', -1, 64))
	case map[string]any:
		if s.isMap {
			for _, member := range value {
				if err := s.elem.CheckDocument(member); err != nil {
					return err
				}
			}
			return nil
		}
		for name, sub := range s.members {
			if err := sub.CheckDocument(value[name]); err != nil {
				return err
			}
		}
	case []any:
		for _, element := range value {
			if err := s.elem.CheckDocument(element); err != nil {
				return err
			}
		}
	}
	return nil
}
