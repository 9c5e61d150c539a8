//go:build !nojsonplan

package jsonplan

// decoderEnabled is false if the build tag nojsonplan disables Decode, DecodeWithout and DecodeDocument.
// Callers then decode everything with sigs.k8s.io/json.
const decoderEnabled = true
