package endpoints

import (
	"net/http"

	"mainstay.dev/mainstay/rest"
	"mainstay.dev/mainstay/telemetry"
)

// get answers GET of one object.
func (c *call) get(s rest.Getter) error {
	t, err := c.negotiate(forObject)
	if err != nil {
		return err
	}
	options, err := c.getOptions()
	if err != nil {
		return err
	}
	record, err := s.Get(c.r.Context(), c.name(), options)
	if err != nil {
		return err
	}
	telemetry.Step(c.r.Context(), "read")
	return c.respondRecord(t, http.StatusOK, record)
}
