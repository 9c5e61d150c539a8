package host

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/flags"
	"mainstay.dev/mainstay/internal/limits/memory"
)

// DefaultCacheMemoryLimit is the default of LimitsConfig.CacheMemory, in bytes.
const DefaultCacheMemoryLimit = codec.DefaultEncodingCacheLimit

// LimitsConfig limits the memory of the server.
type LimitsConfig struct {
	// Memory is the target memory use of the server, in bytes. It limits the memory that large requests
	// use; 0 disables the limit. The caller must also set the garbage collector's memory limit, which
	// applies to the whole process.
	Memory int64
	// MemoryPressed reports whether the process is short of memory; caches then release memory. nil
	// means never. It is called concurrently.
	MemoryPressed func() bool
	// CacheMemory is the maximum size of the cached encodings of objects, in bytes; 0 selects 256
	// MiB, or an eighth of Memory if that is less, and NoLimit disables the limit.
	CacheMemory int64
}

// AddFlags defines the flags of the config. --memory-limit=0 sets Memory to NoLimit, which New rejects, so
// the caller must replace it with 0.
func (c *LimitsConfig) AddFlags(fs *pflag.FlagSet) {
	flags.BytesVar(fs, &c.Memory, "memory-limit", "", "memory limit of the server, such as 512Mi or 2Gi: near it, large requests wait or receive 429, and caches shrink; 0 disables it (default GOMEMLIMIT, or the limit of the control group or the machine)")
	flags.BytesVar(fs, &c.CacheMemory, "cache-memory-limit", "256Mi", "maximum size of the cache of encoded objects, such as 512Mi or 2Gi; 0 disables the limit")
}

func (c *LimitsConfig) setDefaults() {
	cache := int64(DefaultCacheMemoryLimit)
	if c.Memory > 0 {
		cache = min(cache, c.Memory/8)
	}
	setDefault(&c.CacheMemory, cache)
}

func (c *LimitsConfig) check() error {
	var errs []error
	if c.Memory != 0 && c.Memory < memory.MinLimit {
		errs = append(errs, fmt.Errorf("--memory-limit is %d bytes; the least is %dMi", c.Memory, memory.MinLimit>>20))
	}
	if c.CacheMemory < NoLimit {
		errs = append(errs, fmt.Errorf("--cache-memory-limit is %d; it cannot be negative", c.CacheMemory))
	}
	return errors.Join(errs...)
}
