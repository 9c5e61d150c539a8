package controlplane

import (
	"context"
	"fmt"

	"mainstay.dev/mainstay/internal/apis/history"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// EntryDecoder decodes the stored entries of a control plane. It is safe for concurrent use.
type EntryDecoder struct{ objects *historyObjects }

// EntryDecoder returns a decoder for the entries of this control plane, or an error if the control plane is not
// open.
func (c *ControlPlane) EntryDecoder() (*EntryDecoder, error) {
	opened, err := c.instance()
	if err != nil {
		return nil, err
	}
	return &EntryDecoder{&historyObjects{
		settings: opened.settings, builtin: opened.resources.builtin, authorization: opened.authorization, keys: NewKeys(opened.settings.prefix),
	}}, nil
}

// ObjectOf returns the resource and the name of the object that is stored at a key. It returns false if no
// object can be stored at the key.
func (d *EntryDecoder) ObjectOf(key string) (history.Object, bool) { return d.objects.parse(key) }

// Decode returns the object of an entry in its JSON form, in the version in which it is stored. The caller
// owns the result. Decode returns an error if the value cannot be decrypted, or is not an object.
func (d *EntryDecoder) Decode(ctx context.Context, entry *kv.Entry) (map[string]any, error) {
	text, err := d.objects.json(ctx, entry)
	if err != nil {
		return nil, err
	}
	object, err := history.DecodeState(text)
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w", entry.Key, err)
	}
	return object, nil
}
