package config

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// EventRateLimit is the configuration of EventRateLimit. The zero value has no limits.
type EventRateLimit struct {
	metav1.TypeMeta `json:",inline"`
	Limits          []EventLimit `json:"limits"`
}

// EventLimit limits the rate of events that have the same key.
type EventLimit struct {
	Type EventLimitType `json:"type"`
	// QPS is the maximum sustained number of events per second; Burst is the maximum size of a burst.
	QPS   int32 `json:"qps"`
	Burst int32 `json:"burst"`
	// CacheSize is the maximum number of keys in the cache; 0 selects DefaultEventCacheSize.
	CacheSize int32 `json:"cacheSize,omitempty"`
}

// EventLimitType specifies which attributes form the key of an event.
type EventLimitType string

// The types of limits.
const (
	LimitServer          EventLimitType = "Server"
	LimitNamespace       EventLimitType = "Namespace"
	LimitUser            EventLimitType = "User"
	LimitSourceAndObject EventLimitType = "SourceAndObject"
)

// DefaultEventCacheSize is the default maximum number of keys in the cache of a limit.
const DefaultEventCacheSize = 4096

// read implements pluginConfig.
func (c *EventRateLimit) read(data []byte) error {
	if err := decode(data, c, "eventratelimit.admission.k8s.io/v1alpha1, Configuration"); err != nil {
		return err
	}
	limits := field.NewPath("limits")
	var errs field.ErrorList
	if len(c.Limits) == 0 {
		errs = append(errs, field.Invalid(limits, c.Limits, "must not be empty"))
	}
	for i := range c.Limits {
		errs = append(errs, c.Limits[i].validate(limits.Index(i))...)
	}
	return errs.ToAggregate()
}

func (l *EventLimit) validate(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch l.Type {
	case LimitServer, LimitNamespace, LimitUser, LimitSourceAndObject:
	default:
		errs = append(errs, field.NotSupported(at.Child("type"), l.Type, []EventLimitType{LimitServer, LimitNamespace, LimitUser, LimitSourceAndObject}))
	}
	if l.Burst <= 0 {
		errs = append(errs, field.Invalid(at.Child("burst"), l.Burst, "must be positive"))
	}
	if l.QPS <= 0 {
		errs = append(errs, field.Invalid(at.Child("qps"), l.QPS, "must be positive"))
	}
	if l.Type != LimitServer && l.CacheSize < 0 {
		errs = append(errs, field.Invalid(at.Child("cacheSize"), l.CacheSize, "must not be negative"))
	}
	return errs
}
