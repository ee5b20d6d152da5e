//! Whole numbers for the weight of rare and repeated words.

/// One, in millionths.
pub(super) const ONE: i64 = 1_000_000;

/// Few agents are weighted as if there were this many: a word of the only agent still says something.
const AT_LEAST: u64 = 24;

/// How much a word says that `having` of `count` agents have, in millionths: 1 if one agent has it. This is the inverse
/// document frequency of BM25. Agents that have it in part are counted in part: `having` is in thousandths.
pub(super) fn rarity(having: i64, count: usize) -> i64 {
    let count = u64::try_from(count).unwrap_or(u64::MAX).clamp(AT_LEAST, 1 << 30);
    let having = u64::try_from(having)
        .unwrap_or_default()
        .clamp(500, 1_000 * count);
    // ln(1 + (n - d + 0.5) / (d + 0.5)) = ln((n + 1) / (d + 0.5))
    let most = log2(2 * (count + 1), 3);
    log2(2_000 * (count + 1), 2 * having + 1_000) * ONE / most.max(1)
}

/// How much a word says that an agent has with this weight, in millionths: a weight of 1,000 is 1, more says less and less
/// more. This is the term frequency of BM25 without the length of texts.
pub(super) fn saturated(weight: i64) -> i64 {
    const HALF: i64 = 1_000;
    weight * (1_000 + HALF) * 1_000 / (weight + HALF).max(1)
}

/// The binary logarithm of `over / under`, at least 1, in millionths.
fn log2(over: u64, under: u64) -> i64 {
    const BITS: u32 = 32;
    let mut value = (u128::from(over) << BITS) / u128::from(under.max(1));
    let mut log: i64 = 0;
    while value >= 2 << BITS {
        value >>= 1;
        log += ONE;
    }
    let mut half = ONE / 2;
    while half > 0 {
        value = (value * value) >> BITS;
        if value >= 2 << BITS {
            value >>= 1;
            log += half;
        }
        half /= 2;
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_exact_to_a_few_millionths() {
        for (over, under, expected) in [
            (8, 1, 3.0_f64),
            (3, 1, 1.584_963),
            (100, 7, 3.836_501),
            (1, 1, 0.0),
        ] {
            let found = log2(over, under) as f64 / 1e6;
            assert!((found - expected).abs() < 2e-5, "{over}/{under}: {found}");
        }
    }

    #[test]
    fn a_word_says_less_the_more_agents_have_it() {
        assert_eq!(rarity(1_000, 1), ONE);
        assert_eq!(rarity(1_000, 1_000), ONE);
        for count in [1, 24, 1_000] {
            let having = 1..=i64::try_from(count).unwrap();
            let all: Vec<i64> = having.map(|having| rarity(1_000 * having, count)).collect();
            assert!(all.is_sorted_by(|one, next| one > next), "{count}");
            assert!(all.iter().all(|rarity| *rarity > 0));
        }
    }

    #[test]
    fn a_weight_of_a_thousand_is_one_and_more_is_less_than_twice() {
        assert_eq!(saturated(1_000), ONE);
        assert_eq!(saturated(0), 0);
        assert!(saturated(2_500) > saturated(2_000) && saturated(5_000) < 2 * ONE);
    }
}
