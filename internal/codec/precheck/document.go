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
// for a quantity beyond the limits, an API error for an object that exceeds MaxMemory, and the errors of
// charge. It returns nil for invalid JSON, which the decoder reports.
func (s *Shape) CheckJSON(text []byte, charge Charge) error {
	uncharged := MaxMemory
	if charge != nil {
		uncharged = chargedStep
	}
	if s == nil || !s.containsQuantity && len(text)/minElement*s.largest <= uncharged {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	m := &Meter{Charge: charge}
	_, err := m.checkNext(s, d, maxDepth)
	return err
}

// checkNext checks the next value and its content. ok is false for invalid JSON.
func (m *Meter) checkNext(s *Shape, d *json.Decoder, depth int) (ok bool, err error) {
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
			if err := m.Add(p.size); err != nil {
				return false, err
			}
			if ok, err := m.checkNext(p.shape, d, depth-1); !ok || err != nil {
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
func (s *Shape) CheckDocument(value any, charge Charge) error {
	m := &Meter{Charge: charge}
	return m.checkDocument(s, value)
}

func (m *Meter) checkDocument(s *Shape, value any) error {
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
			if err := m.checkPart(p, member); err != nil {
				return err
			}
		}
	case []any:
		for _, element := range value {
			if err := m.checkPart(s.elem, element); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *Meter) checkPart(p part, value any) error {
	if err := m.Add(p.size); err != nil {
		return err
	}
	return m.checkDocument(p.shape, value)
}
