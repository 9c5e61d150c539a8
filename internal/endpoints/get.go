package endpoints

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/telemetry"
)

// get handles GET requests for an object.
func (c *call) get(s rest.Getter) error {
	t, err := c.negotiate(forObject)
	if err != nil {
		return err
	}
	options, err := c.getOptions()
	if err != nil {
		return err
	}
	record, err := c.read(s, options)
	if err != nil {
		return err
	}
	telemetry.Step(c.r.Context(), "read")
	return c.respondRecord(t, http.StatusOK, record)
}

// read reads the current object, or a past revision of it if a test injected a fault (request.Info.AsOf).
func (c *call) read(s rest.Getter, options metav1.GetOptions) (*codec.Record, error) {
	if past, ok := s.(rest.PastGetter); ok && c.info.AsOf != 0 {
		return past.GetAt(c.r.Context(), c.name(), c.info.AsOf)
	}
	return s.Get(c.r.Context(), c.name(), options)
}
