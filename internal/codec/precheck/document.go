package precheck

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"mainstay.dev/mainstay/internal/codec/quantity"
)

// maxDepth is the maximum nesting depth that any of the decoders accepts.
const maxDepth = 10_000

// minElement is the minimum size of a list element with its separator in JSON, in bytes.
const minElement = 2

// CheckJSON checks a JSON text that encodes a value of the shape's type. It returns quantity.ErrOutOfRange
// for a quantity beyond the limits, and an API error for an object that exceeds MaxMemory. It returns nil
// for invalid JSON, which the decoder reports.
func (s *Shape) CheckJSON(text []byte) error {
	if s == nil || !s.containsQuantity && len(text)/minElement*s.largest <= MaxMemory {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	_, err := new(counter).checkNext(s, d, maxDepth)
	return err
}

// checkNext checks the next value and its content. ok is false for invalid JSON.
func (c *counter) checkNext(s *Shape, d *json.Decoder, depth int) (ok bool, err error) {
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
			p := s.element()
			if token == '{' {
				name, err := d.Token()
				if err != nil {
					return false, nil
				}
				p = s.member(name.(string))
			}
			if err := c.add(p.size); err != nil {
				return false, err
			}
			if ok, err := c.checkNext(p.shape, d, depth-1); !ok || err != nil {
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
	return quantity.Check(strings.TrimSpace(text)) // apimachinery ignores white space in JSON
}

// CheckDocument is like CheckJSON, for a decoded JSON document.
func (s *Shape) CheckDocument(value any) error {
	return new(counter).checkDocument(s, value)
}

func (c *counter) checkDocument(s *Shape, value any) error {
	if s == nil {
		return nil
	}
	switch value := value.(type) {
	case string:
		return s.checkText(value)
	case float64:
		return s.checkText(strconv.FormatFloat(value, 'g', -1, 64))
	case map[string]any:
		for name, member := range value {
			p := s.elem
			if !s.isMap {
				p = s.members[name]
			}
			if err := c.checkPart(p, member); err != nil {
				return err
			}
		}
	case []any:
		for _, element := range value {
			if err := c.checkPart(s.elem, element); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *counter) checkPart(p part, value any) error {
	if err := c.add(p.size); err != nil {
		return err
	}
	return c.checkDocument(p.shape, value)
}
