//! The sum by which a cluster finds the slot of a key, and a partitioned queue the part of a job: CRC-16/XMODEM.

const TABLE: [u16; 256] = table();

const fn table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut byte: u16 = 0;
    while byte < 256 {
        let (mut sum, mut bit) = (byte << 8, 0);
        while bit < 8 {
            sum = if sum & 0x8000 == 0 { sum << 1 } else { sum << 1 ^ 0x1021 };
            bit += 1;
        }
        table[byte as usize] = sum;
        byte += 1;
    }
    table
}

pub(crate) fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum: u16, &byte| sum << 8 ^ TABLE[usize::from(sum >> 8 ^ u16::from(byte))])
}

#[cfg(test)]
mod tests {
    use super::crc16;

    #[test]
    fn sums_and_slots_are_those_of_the_server() {
        assert_eq!(crc16(b""), 0);
        assert_eq!(crc16(b"123456789"), 0x31c3, "the check value of the cluster's specification");
        assert_eq!(crc16(&[0xff; 3]), 0xd26c);
        // As CLUSTER KEYSLOT says.
        for (key, slot) in [("foo", 12_182), ("bar", 5_061), ("orders", 105), ("\u{8ba2}\u{5355}", 4_529)] {
            assert_eq!(crc16(key.as_bytes()) % 16_384, slot, "{key}");
        }
    }
}
