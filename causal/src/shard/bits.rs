//! Numbers of any width, one behind the other, the most significant bit of the first byte first.

/// Where bits are appended; what is missing to a whole byte at the end is zero.
pub(super) struct BitWriter<'a> {
    to: &'a mut Vec<u8>,
    /// The bits that make no whole byte yet, in the lowest places.
    open: u128,
    /// How many.
    count: u32,
}

impl<'a> BitWriter<'a> {
    pub(super) const fn new(to: &'a mut Vec<u8>) -> Self {
        Self {
            to,
            open: 0,
            count: 0,
        }
    }

    /// Appends `number`, which has at most `width` bits.
    pub(super) fn write(&mut self, number: u64, width: u32) {
        debug_assert!(width <= u64::BITS && number.checked_shr(width).unwrap_or(0) == 0);
        // At most seven bits are open.
        self.open = self.open << width | u128::from(number);
        self.count += width;
        while self.count >= u8::BITS {
            self.count -= u8::BITS;
            self.to.push((self.open >> self.count) as u8);
        }
        self.open &= (1 << self.count) - 1;
    }

    /// Appends what makes the last byte whole.
    pub(super) fn finish(self) {
        if self.count > 0 {
            self.to.push((self.open << (u8::BITS - self.count)) as u8);
        }
    }
}

/// Bits that are taken one number at a time.
pub(super) struct BitReader<'a> {
    bytes: &'a [u8],
    /// Bits taken.
    at: usize,
}

impl<'a> BitReader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The next number of `width` bits, at most 64; `None` when there are not as many.
    pub(super) fn read(&mut self, width: u32) -> Option<u64> {
        let mut number = 0;
        let mut missing = width;
        while missing > 0 {
            let byte = *self.bytes.get(self.at / 8)?;
            let left = u8::BITS - (self.at % 8) as u32;
            let taken = left.min(missing);
            // A whole byte shifts everything out of a u8.
            let bits = u16::from(byte) >> (left - taken) & ((1 << taken) - 1);
            number = number << taken | u64::from(bits);
            missing -= taken;
            self.at += taken as usize;
        }
        Some(number)
    }

    /// Bytes of which a bit was taken.
    pub(super) const fn bytes_taken(&self) -> usize {
        self.at.div_ceil(8)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_most_significant_bit_comes_first() {
        let mut bytes = vec![0xff];
        let mut bits = BitWriter::new(&mut bytes);
        bits.write(0b1, 1);
        bits.write(0b0101, 4);
        bits.write(0, 0);
        bits.write(0b11_0000_0001, 10);
        bits.finish();
        assert_eq!(bytes, [0xff, 0b1010_1110, 0b0000_0010]);
    }

    proptest! {
        #[test]
        fn numbers_are_read_back(numbers in vec((any::<u64>(), 0..=64_u32), 0..40)) {
            let numbers: Vec<(u64, u32)> = numbers
                .into_iter()
                .map(|(number, width)| (number.checked_shr(64 - width).unwrap_or(0), width))
                .collect();
            let mut bytes = Vec::new();
            let mut writer = BitWriter::new(&mut bytes);
            numbers.iter().for_each(|&(number, width)| writer.write(number, width));
            writer.finish();
            let sum: u32 = numbers.iter().map(|&(_, width)| width).sum();
            prop_assert_eq!(bytes.len(), sum.div_ceil(8) as usize);
            let mut reader = BitReader::new(&bytes);
            for &(number, width) in &numbers {
                prop_assert_eq!(reader.read(width), Some(number));
            }
            prop_assert_eq!(reader.bytes_taken(), bytes.len());
            prop_assert_eq!(reader.read(8), None);
        }
    }
}
