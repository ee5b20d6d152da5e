//! Statistics: values of SciPy, statsmodels and scikit-learn, textbook examples, properties, and simulations.
#![allow(clippy::float_cmp, reason = "what must be exact is compared exactly")]

mod coverage;
mod properties;
mod reference;
mod textbook;

/// Random numbers that depend only on their seed (xorshift64*): another generator than the bootstrap's.
struct Random(u64);

impl Random {
    /// Evenly distributed in 0..1.
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11;
        bits as f64 / (1_u64 << 53) as f64
    }

    /// Normal with mean 0 and standard deviation 1, as the sum of twelve.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}
